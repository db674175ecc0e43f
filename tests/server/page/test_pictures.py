"""Takes the screenshots of docs/pictures; HOLDFAST_PICTURES=1 saves them there."""

from pathlib import Path

from tests.server.page import showcase
from tests.server.page.pictures import SCREENS, take_picture
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway


def test_pictures_are_taken_of_a_chat_and_of_a_turn_that_runs(
    demo_gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    session_id = ""
    for name, view in SCREENS.items():
        visitor = visit(demo_gateway, **view)
        for body in showcase.import_bodies() if not session_id else ():
            answer = visitor.fetch("POST", "/api/v1/sessions/import", data=body)
            session_id = str(answer.json()["id"])
        visitor.open_chat(session_id)
        visitor.replies.first.wait_for()
        visitor.page.locator(".scroller").evaluate("node => node.scrollTop = 0")
        take_picture(visitor, pictures_directory / f"{name}.png")
    visitor = visit(demo_gateway, **SCREENS["light"])
    visitor.send("long job")
    visitor.page.locator(".step").nth(1).wait_for()
    visitor.page.locator(".step").first.locator("summary").click()
    take_picture(visitor, pictures_directory / "running.png")
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".stop").wait_for(state="hidden")
