"""Whoever writes before the page has heard from the gateway is answered in the chat they see."""

from typing import Any


def test_what_is_said_while_the_page_still_loads_opens_its_chat(gateway: Any, visit: Any) -> None:
    visitor = visit(gateway)
    held: list[Any] = []
    visitor.page.route("**/api/v1/commands", lambda route: held.append(route))
    visitor.page.reload(wait_until="domcontentloaded")
    visitor.box.wait_for()
    visitor.say("said at once")
    while not held:
        visitor.page.wait_for_timeout(20)
    for request in held:
        request.continue_()
    visitor.said.first.wait_for(timeout=8000)
    assert "#/chat/" in visitor.page.url
