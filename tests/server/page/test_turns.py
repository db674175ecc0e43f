"""Turns, approvals and processes on the dashboard: drawn, followed live, and acted on."""

import asyncio
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.server.page import past_turns
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.dashboard import PRICES
from tests.server.page.past_turns import INTERRUPTED, LONG, NEXT, STEPS
from tests.server.page.pictures import SHORT_SCREEN, take_picture
from tests.server.page.prompts import SUDO_COMMAND
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway

START_PROCESS = (
    '[tool process {"action": "start", "command":'
    " \"printf '\\\\033[31mtick\\\\033[0m'; sleep 60\"}] [then] [text started]"
)
SLEEPING_COMMAND = '[tool terminal {"command": "echo begun; sleep 60"}] [then] [text over]'


@pytest.fixture(scope="module")
def home(home: Path) -> Path:
    (home / "holdfast.toml").write_text(PRICES)
    asyncio.run(past_turns.write_turns(home, now=time.time()))
    return home


def open_view(visitor: Visitor, address: str) -> None:
    visitor.page.goto(f"{visitor.gateway.address}/#/{address}")
    title = address.partition("/")[0].capitalize()
    visitor.page.get_by_role("heading", level=1, name=title).wait_for()
    visitor.page.locator(".views .card").first.wait_for()
    visitor.page.locator(".views .quiet-text", has_text="Loading").first.wait_for(state="detached")


def send_in_new_chat(visitor: Visitor, text: str) -> str:
    """Sends a message in a new chat through the API, and returns the id of the chat."""
    session = str(visitor.fetch("POST", "/api/v1/sessions", data={}).json()["id"])
    body = {"text": text, "message_id": "m1"}
    visitor.fetch("POST", f"/api/v1/sessions/{session}/messages", data=body)
    return session


def wait_until_listed(visitor: Visitor, path: str, text: str) -> None:
    """Waits until the API lists it: a view that is opened earlier polls again much later."""
    while text not in visitor.fetch("GET", f"/api/v1{path}").text():
        visitor.page.wait_for_timeout(50)


def timeline_row(visitor: Visitor, name: str) -> Any:
    return visitor.page.locator(".span-row > button").filter(has_text=name)


def test_the_timeline_of_an_interrupted_turn_shows_how_it_was_resumed(
    gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    """H2: it shows where the turn was interrupted, for how long the gateway was down, which call
    was attached to and which outcome is unknown; the hours of downtime are drawn shortened."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    open_view(visitor, f"turns/{INTERRUPTED}")
    timeline_row(visitor, "make check-tides").hover()
    take_picture(visitor, pictures_directory / "timeline.png")
    page.mouse.move(2, 2)  # else the readout would show what is under the pointer
    cuts = page.locator(".interruptions").inner_text()
    assert "The gateway crashed: the turn was interrupted in the middle of a step" in cuts
    assert "down for 26 min 40 s" in cuts
    assert "1 call kept running and was reattached." in cuts
    assert "The outcome of 1 call is unknown." in cuts
    assert page.locator(".bands i").count() == 2
    marks = page.locator(".scale .track i")
    many = marks.count()
    visitor.set_screen(viewport=PHONE)  # on a smaller screen fewer marks fit
    marks.nth(many - 1).wait_for(state="detached")
    boxes = marks.evaluate_all("all => all.map(e => e.getBoundingClientRect().toJSON())")
    assert all(one["right"] <= two["left"] for one, two in pairwise(boxes))
    visitor.set_screen(viewport=DESKTOP)
    marks.nth(many - 1).wait_for()
    widths = page.locator(".span-row.downtime .bar").evaluate_all(
        "all => all.map(e => e.offsetWidth)"
    )
    first = timeline_row(visitor, "scripted").first.locator(".bar").bounding_box()
    assert max(widths) < first["width"], "half an hour is narrower than two seconds"

    attached = timeline_row(visitor, "make check-tides")
    assert "was reattached" in attached.text_content()
    timeline_row(visitor, "Message").focus()
    page.keyboard.press("ArrowDown")
    text = page.locator(".waterfall .readout", has_text="took 1.8 s")
    text.get_by_text("5.2K read").wait_for()
    attached.click()
    page.locator(".span-details .step summary").click()
    page.locator(".span-details .output").get_by_text("its output").wait_for()
    page.get_by_text("As a table").click()
    rows = page.locator(".as-table tbody tr")
    rows.last.wait_for()
    assert rows.count() == page.locator(".span-row").count()
    assert "outcome unknown" in rows.filter(has_text="send_mail").inner_text()

    page.get_by_role("link", name="Next turn").click()
    page.wait_for_url(f"**/#/turns/{NEXT}")
    page.locator(".interruptions").wait_for(state="detached")
    page.go_back()
    page.locator(".interruptions").wait_for()
    page.get_by_role("link", name="All turns").click()
    page.get_by_role("combobox", name="Order").select_option("slowest")
    slowest = page.locator("tbody tr").first
    slowest.get_by_text("over 2 restarts").wait_for()


def test_a_turn_of_hundreds_of_steps_is_drawn_completely(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    open_view(visitor, f"turns/{LONG}")
    visitor.page.locator(".span-row").nth(STEPS + 1).wait_for()
    assert visitor.page.locator(".span-row").count() == STEPS + 2
    last = visitor.page.locator(".span-row .bar").last.bounding_box()
    assert last["width"] >= 3, "a short step is visible in a long turn, too"


def test_pending_approvals_are_counted_decided_and_followed(
    gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    """J3: an open view of a waiting turn shows that it continues after a decision elsewhere."""
    visitor = visit(gateway, **SHORT_SCREEN)
    page = visitor.page
    open_view(visitor, "turns")
    session = send_in_new_chat(visitor, SUDO_COMMAND)
    views = page.get_by_role("navigation")
    views.get_by_role("link", name="Approvals 1 waiting").click()
    card = page.get_by_role("form", name="Approval")
    card.locator("pre", has_text="sudo -n true; echo it ran").wait_for()
    assert "terminal for web:default:owner" in card.inner_text()
    card.get_by_role("link", name="Timeline").click()
    waits = timeline_row(visitor, "Approval of terminal")
    waits.locator(".bar.growing").wait_for()
    (asked,) = visitor.fetch("GET", f"/api/v1/approvals?pending=true&session={session}").json()
    visitor.fetch("POST", f"/api/v1/approvals/{asked['id']}", data={"answer": "approve"})
    page.locator("h2 .badge", has_text="answered").wait_for()
    assert "approved by operator" in waits.text_content()

    send_in_new_chat(visitor, SUDO_COMMAND)
    open_view(visitor, "approvals")
    card.wait_for()
    take_picture(visitor, pictures_directory / "approvals.png")
    card.get_by_role("button", name="Always allow").click()
    card.wait_for(state="hidden")
    decided = page.get_by_role("table", name="Decided").locator("tbody tr")
    decided.filter(has_text="always approved").wait_for()
    decided.filter(has_text="approved once").wait_for()
    page.get_by_role("button", name="Ask again about become-root").click()
    page.get_by_role("dialog").get_by_role("button", name="Ask again").click()
    page.get_by_role("heading", name="Allowed without asking").wait_for(state="detached")
    views.locator(".count").wait_for(state="detached")


def test_running_processes_and_calls_are_followed_and_ended(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    send_in_new_chat(visitor, START_PROCESS)
    send_in_new_chat(visitor, SLEEPING_COMMAND)
    wait_until_listed(visitor, "/processes", '"running":true')
    wait_until_listed(visitor, "/calls", "begun\\n")
    open_view(visitor, "processes")
    call = page.locator("section", has_text="In the foreground").locator("li", has_text="begun")
    call.locator("summary").click()
    call.get_by_text("begun", exact=True).wait_for()
    process = page.locator("section", has_text="In the background").locator("li")
    process.locator("summary").click()
    process.locator("pre", has_text=re.compile("^tick$")).wait_for()
    process.get_by_role("button", name="End").click()
    page.get_by_role("dialog").get_by_role("button", name="End process").click()
    ended = page.locator("section", has_text="Ended").locator("li")
    ended.get_by_text("killed").wait_for()
    call.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop turn").click()
    page.get_by_text("No turn waits for a tool call").wait_for()


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_the_views_of_turns_approvals_and_processes_are_accessible(
    gateway: SpawnedGateway, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    page = visitor.page
    for address in ("turns", f"turns/{INTERRUPTED}", "approvals", "processes"):
        open_view(visitor, address)
        if address.endswith(INTERRUPTED):
            timeline_row(visitor, "send_mail").click()
            page.locator(".span-details .step").wait_for()
        assert serious_violations(page, theme) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
