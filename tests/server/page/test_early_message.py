"""A message that is sent before the page has loaded is answered in the chat that it opens."""

from typing import Any

from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway


def test_a_message_sent_while_the_page_loads_opens_its_chat(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """The page finishes loading after the message is sent and before its chat is created."""
    visitor = visit(gateway)
    loading: list[Any] = []
    beginning: list[Any] = []
    address = visitor.page.url
    visitor.page.goto("about:blank")  # or requests of the first page would be held as well
    visitor.page.route("**/api/v1/commands", lambda route: loading.append(route))
    visitor.page.route("**/api/v1/sessions", lambda route: beginning.append(route))
    visitor.page.goto(address, wait_until="domcontentloaded")
    visitor.message_box.wait_for()
    visitor.send("said at once")
    while not (loading and beginning):
        visitor.page.wait_for_timeout(20)
    with visitor.page.expect_request("**/api/v1/events"):  # it continues once it has loaded
        loading.pop().continue_()
    visitor.page.wait_for_timeout(100)
    beginning.pop().continue_()
    visitor.user_messages.first.wait_for()
    assert "#/chat/" in visitor.page.url
