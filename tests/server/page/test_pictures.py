"""The pictures of docs/pictures, taken of the page as it is; HOLDFAST_PICTURES=1 keeps them."""

from pathlib import Path

from tests.server.page import showcase
from tests.server.page.conftest import Visit
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

VIEWS = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 1000}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 1000}},
    "phone": {
        "color_scheme": "light",
        "viewport": {"width": 390, "height": 844},
        "device_scale_factor": 2,
        "is_mobile": True,
        "has_touch": True,
    },
}
FLAT = {"color_scheme": "light", "viewport": {"width": 1280, "height": 640}}  # of what is short


def take(visitor: Visitor, path: Path) -> None:
    visitor.page.wait_for_timeout(300)  # for what fades in
    visitor.page.screenshot(path=path, animations="disabled")
    assert path.stat().st_size > 10_000


def test_pictures_are_taken_of_a_chat_and_of_a_turn_that_runs(
    demo_gateway: GatewayProcess, visit: Visit, album: Path
) -> None:
    session_id = ""
    for name, view in VIEWS.items():
        visitor = visit(demo_gateway, **view)
        for body in showcase.chats() if not session_id else ():
            answer = visitor.fetch("POST", "/api/v1/sessions/import", data=body)
            session_id = str(answer.json()["id"])
        visitor.open(session_id)
        visitor.replies.first.wait_for()
        visitor.page.locator(".scroller").evaluate("node => node.scrollTop = 0")
        take(visitor, album / f"{name}.png")
    visitor = visit(demo_gateway, **VIEWS["light"])
    visitor.say("long job")
    visitor.page.locator(".step").nth(1).wait_for()
    visitor.page.locator(".step").first.locator("summary").click()
    take(visitor, album / "running.png")
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".stop").wait_for(state="hidden")
