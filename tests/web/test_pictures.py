"""The pictures of docs/pictures, taken of the page as it is; HOLDFAST_PICTURES=1 keeps them."""

import os
from pathlib import Path

import pytest
from tests.platforms.served import Served
from tests.web import showcase
from tests.web.conftest import Visit
from tests.web.visitor import Visitor

DOCS = Path(__file__).parents[2] / "docs" / "pictures"
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


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Where pictures go: a run of the tests leaves those of the documentation alone."""
    if os.environ.get("HOLDFAST_PICTURES") != "1":
        return tmp_path
    DOCS.mkdir(parents=True, exist_ok=True)
    return DOCS


def take(visitor: Visitor, path: Path) -> None:
    visitor.page.wait_for_timeout(300)  # for what fades in
    visitor.page.screenshot(path=path, animations="disabled")
    assert path.stat().st_size > 10_000


def test_pictures_are_taken_of_a_chat_and_of_a_turn_that_runs(
    demo_gateway: Served, visit: Visit, album: Path
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
