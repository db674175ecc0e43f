"""Whoever writes before the page has heard from the gateway is answered in the chat they see."""

from typing import Any


def test_what_is_said_while_the_page_still_loads_opens_its_chat(gateway: Any, visit: Any) -> None:
    """The page learns where it is after the words are said and before their chat is begun."""
    visitor = visit(gateway)
    loading: list[Any] = []
    beginning: list[Any] = []
    address = visitor.page.url
    visitor.page.goto("about:blank")  # or what the first page still asks for were held as well
    visitor.page.route("**/api/v1/commands", lambda route: loading.append(route))
    visitor.page.route("**/api/v1/sessions", lambda route: beginning.append(route))
    visitor.page.goto(address, wait_until="domcontentloaded")
    visitor.box.wait_for()
    visitor.say("said at once")
    while not (loading and beginning):
        visitor.page.wait_for_timeout(20)
    with visitor.page.expect_request("**/api/v1/events"):  # it goes on once it has loaded
        loading.pop().continue_()
    visitor.page.wait_for_timeout(100)
    beginning.pop().continue_()
    visitor.said.first.wait_for()
    assert "#/chat/" in visitor.page.url
