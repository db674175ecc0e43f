"""Turns, approvals and processes on the dashboard: drawn, live, and acted upon."""

import asyncio
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.server.page import past_turns
from tests.server.page.conftest import Visit
from tests.server.page.past_turns import CUT, LONG, NEXT, STEPS
from tests.server.page.test_accessibility import DESKTOP, PHONE, serious
from tests.server.page.test_approvals import SUDO
from tests.server.page.test_pictures import FLAT, take
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

PRICES = '[prices."scripted"]\ninput = 2.0\noutput = 8.0\n'
TICKS = (
    '[tool process {"action": "start", "command":'
    " \"printf '\\\\033[31mtick\\\\033[0m'; sleep 60\"}] [then] [text started]"
)
SLEEPS = '[tool terminal {"command": "echo begun; sleep 60"}] [then] [text over]'


@pytest.fixture(scope="module")
def home(home: Path) -> Path:
    (home / "holdfast.toml").write_text(PRICES)
    asyncio.run(past_turns.lived(home, now=time.time()))
    return home


def show(visitor: Visitor, address: str) -> None:
    visitor.page.goto(f"{visitor.gateway.address}/#/{address}")
    title = address.partition("/")[0].capitalize()
    visitor.page.get_by_role("heading", level=1, name=title).wait_for()
    visitor.page.locator(".views .card").first.wait_for()
    visitor.page.locator(".views .quiet-text", has_text="Loading").first.wait_for(state="detached")


def said(visitor: Visitor, text: str) -> str:
    """Say it in a chat of its own, past the page; the chat's id."""
    session = str(visitor.fetch("POST", "/api/v1/sessions", data={}).json()["id"])
    body = {"text": text, "message_id": "m1"}
    visitor.fetch("POST", f"/api/v1/sessions/{session}/messages", data=body)
    return session


def until(visitor: Visitor, path: str, told: str) -> None:
    """Until the gateway says so: a list that is opened a moment earlier asks again much later."""
    while told not in visitor.fetch("GET", f"/api/v1{path}").text():
        visitor.page.wait_for_timeout(50)


def line(visitor: Visitor, name: str) -> Any:
    return visitor.page.locator(".line > button").filter(has_text=name)


def test_a_turn_that_was_cut_is_drawn_with_what_became_of_it(
    gateway: GatewayProcess, visit: Visit, album: Path
) -> None:
    """H2: where it was cut, for how long nobody was there, what was attached and what is unknown;
    the hours of absence leave room for the seconds of work."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    show(visitor, f"turns/{CUT}")
    line(visitor, "make check-tides").hover()
    take(visitor, album / "timeline.png")
    page.mouse.move(2, 2)  # what lies under the pointer would be told again whenever it moves
    cuts = page.locator(".cuts").inner_text()
    assert "The gateway crashed: the turn was interrupted in the middle of a step" in cuts
    assert "away for 26 min 40 s" in cuts
    assert "1 call had run on and was attached to, the outcome of 1 call is unknown" in cuts
    assert page.locator(".bands i").count() == 2
    marks = page.locator(".scale .track i")
    many = marks.count()
    visitor.looks(viewport=PHONE)  # turned, or drawn smaller: what stands there finds its room
    marks.nth(many - 1).wait_for(state="detached")
    places = marks.evaluate_all("all => all.map(e => e.getBoundingClientRect().toJSON())")
    assert all(one["right"] <= two["left"] for one, two in pairwise(places))
    visitor.looks(viewport=DESKTOP)
    marks.nth(many - 1).wait_for()
    widths = page.locator(".line.downtime .bar").evaluate_all("all => all.map(e => e.offsetWidth)")
    first = line(visitor, "scripted").first.locator(".bar").bounding_box()
    assert max(widths) < first["width"], "half an hour is narrower than two seconds"

    attached = line(visitor, "make check-tides")
    assert "was attached to" in attached.text_content()
    line(visitor, "Message").focus()
    page.keyboard.press("ArrowDown")
    told = page.locator(".waterfall .readout", has_text="took 1.8 s")
    told.get_by_text("5.2K read").wait_for()
    attached.click()
    page.locator(".span-details .step summary").click()
    page.locator(".span-details .output").get_by_text("its output").wait_for()
    page.get_by_text("As a table").click()
    rows = page.locator(".as-table tbody tr")
    rows.last.wait_for()
    assert rows.count() == page.locator(".line").count()
    assert "outcome unknown" in rows.filter(has_text="send_mail").inner_text()

    page.get_by_role("link", name="Next turn").click()
    page.wait_for_url(f"**/#/turns/{NEXT}")
    page.locator(".cuts").wait_for(state="detached")
    page.go_back()
    page.locator(".cuts").wait_for()
    page.get_by_role("link", name="All turns").click()
    page.get_by_role("combobox", name="Order").select_option("slowest")
    slowest = page.locator("tbody tr").first
    slowest.get_by_text("over 2 restarts").wait_for()


def test_a_turn_of_hundreds_of_steps_is_drawn_whole(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    show(visitor, f"turns/{LONG}")
    visitor.page.locator(".line").nth(STEPS + 1).wait_for()
    assert visitor.page.locator(".line").count() == STEPS + 2
    last = visitor.page.locator(".line .bar").last.bounding_box()
    assert last["width"] >= 3, "what is short beside the whole is seen all the same"


def test_what_waits_is_counted_decided_and_followed(
    gateway: GatewayProcess, visit: Visit, album: Path
) -> None:
    """J3: who looks at a turn that waits sees it go on when somebody decides elsewhere."""
    visitor = visit(gateway, **FLAT)
    page = visitor.page
    show(visitor, "turns")
    session = said(visitor, SUDO)
    views = page.get_by_role("navigation")
    views.get_by_role("link", name="Approvals 1 waiting").click()
    card = page.get_by_role("form", name="Approval")
    card.locator("pre", has_text="sudo -n true; echo it ran").wait_for()
    assert "terminal for web:default:owner" in card.inner_text()
    card.get_by_role("link", name="Timeline").click()
    waits = line(visitor, "Approval of terminal")
    waits.locator(".bar.growing").wait_for()
    (asked,) = visitor.fetch("GET", f"/api/v1/approvals?pending=true&session={session}").json()
    visitor.fetch("POST", f"/api/v1/approvals/{asked['id']}", data={"answer": "approve"})
    page.locator("h2 .badge", has_text="answered").wait_for()
    assert "approved by operator" in waits.text_content()

    said(visitor, SUDO)
    show(visitor, "approvals")
    card.wait_for()
    take(visitor, album / "approvals.png")
    card.get_by_role("button", name="Always allow").click()
    card.wait_for(state="hidden")
    decided = page.get_by_role("table", name="Decided").locator("tbody tr")
    decided.filter(has_text="approved for good").wait_for()
    decided.filter(has_text="approved, once").wait_for()
    page.get_by_role("button", name="Ask again about become-root").click()
    page.get_by_role("dialog").get_by_role("button", name="Ask again").click()
    page.get_by_role("heading", name="Allowed without asking").wait_for(state="detached")
    views.locator(".count").wait_for(state="detached")


def test_what_runs_anywhere_is_followed_and_ended(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    page = visitor.page
    said(visitor, TICKS)
    said(visitor, SLEEPS)
    until(visitor, "/processes", '"running":true')
    until(visitor, "/calls", "begun\\n")
    show(visitor, "processes")
    call = page.locator("section", has_text="In the foreground").locator("li", has_text="begun")
    call.locator("summary").click()
    call.get_by_text("begun", exact=True).wait_for()
    process = page.locator("section", has_text="In the background").locator("li")
    process.locator("summary").click()
    process.locator("pre", has_text=re.compile("^tick$")).wait_for()
    process.get_by_role("button", name="End").click()
    page.get_by_role("dialog").get_by_role("button", name="End it").click()
    ended = page.locator("section", has_text="Ended").locator("li")
    ended.get_by_text("killed").wait_for()
    call.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop it").click()
    page.get_by_text("No turn waits for a call").wait_for()


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_these_views_are_for_everyone(
    gateway: GatewayProcess, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    page = visitor.page
    for address in ("turns", f"turns/{CUT}", "approvals", "processes"):
        show(visitor, address)
        if address.endswith(CUT):
            line(visitor, "send_mail").click()
            page.locator(".span-details .step").wait_for()
        assert serious(page, theme) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
