"""Sessions on the dashboard: filtered, read with their usage, followed, and acted on."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.dashboard import PRICES, change_controls
from tests.server.page.filled_home import LONGEST, fill, session_id_of
from tests.server.page.held_turn import HeldTurn
from tests.server.page.pictures import take_picture
from tests.server.page.prompts import SUDO_COMMAND
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway
from tests.support.held_command import HELD_CALL
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.server.local.control_client import ControlClient

SESSIONS = 350
STEPS = 150
ALLOWED = 'allow = ["ann", "ben"]\n'


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    fill(home, sessions=SESSIONS, steps=STEPS)
    (home / "holdfast.toml").write_text(PRICES + vendor.settings + ALLOWED)
    return home


def open_session_list(visitor: Visitor, query: str = "") -> Any:
    """Opens the list, and returns its rows once there are some."""
    visitor.page.goto(f"{visitor.gateway.address}/#/sessions{query}")
    rows = visitor.page.locator(".sessions .body [role=row]")
    rows.first.wait_for()
    return rows


def open_session(visitor: Visitor, session: str) -> Any:
    """Opens a session, and returns the page once its head is shown."""
    visitor.page.goto(f"{visitor.gateway.address}/#/sessions/{session}")
    visitor.page.locator(".session-head h2").wait_for()
    return visitor.page


def send_as_ann(visitor: Visitor, vendor: SimulatedVendor, text: str) -> str:
    """Sends a message as Ann on the simulated platform, and returns its session."""
    vendor.say(text, user="ann")
    path = "/api/v1/sessions?platform=simulated&user=ann&limit=1"
    while not (found := visitor.fetch("GET", path).json()["sessions"]):
        visitor.page.wait_for_timeout(30)
    return str(found[0]["id"])


def choose_action(page: Any, action: str) -> None:
    page.get_by_role("button", name="Actions").click()
    page.get_by_role("menuitem", name=action).click()


def test_a_long_list_draws_only_visible_rows_and_restores_its_position(
    gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    """Of hundreds of loaded rows a few dozen are drawn; going back restores the position."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    rows = open_session_list(visitor)
    take_picture(visitor, pictures_directory / "sessions.png")
    table = page.get_by_role("table", name="Sessions")
    assert table.get_attribute("aria-rowcount") == "-1", "the number is not known yet"
    first = rows.first.inner_text()
    assert "It is done, 0 of them." in first and "person0" in first and "simulated" in first
    for part in ("idle", "1.9K", "0.0"):  # its state, its tokens and its cost
        assert part in first
    scroller = page.locator(".board > .scroller")
    while table.get_attribute("aria-rowcount") == "-1":
        scroller.evaluate("node => node.scrollTop = node.scrollHeight")
        page.wait_for_timeout(20)
    assert int(table.get_attribute("aria-rowcount")) >= SESSIONS + 1
    scroller.evaluate("node => node.scrollTop = node.scrollHeight")
    oldest = rows.filter(has_text=f"({SESSIONS})")
    oldest.wait_for()
    assert rows.count() < 80
    before = scroller.evaluate("node => node.scrollTop")
    oldest.get_by_role("link").press("ArrowUp")
    page.keyboard.press("Enter")
    page.locator(".session-head h2", has_text=f"({SESSIONS - 1})").wait_for()
    page.go_back()
    oldest.wait_for()
    assert abs(scroller.evaluate("node => node.scrollTop") - before) < 200


def test_sessions_are_found_by_platform_state_person_and_words(
    gateway: SpawnedGateway, visit: Visit, vendor: SimulatedVendor
) -> None:
    """The filter is in the address, and new messages are shown without a reload."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    page.clock.install()
    rows = open_session_list(visitor)
    page.get_by_role("combobox", name="Platform").select_option("irc")
    rows.filter(has_text="simulated").first.wait_for(state="detached")
    rows.filter(has_text="irc").first.wait_for()
    page.get_by_role("searchbox", name="Person").fill("person7")
    page.wait_for_function("() => location.hash.includes('user=person7')")
    rows.filter(has_text="person12").first.wait_for(state="detached")
    page.reload()
    rows.filter(has_text="person7").first.wait_for()
    assert set(re.findall(r"person\d+", rows.all_inner_texts()[0])) == {"person7"}
    page.get_by_role("combobox", name="State").select_option("suspended")
    page.get_by_text("No session matches.").wait_for()
    page.get_by_role("link", name="Show all").click()
    rows.filter(has_text="simulated").first.wait_for()

    number = len(vendor.sent(0))
    send_as_ann(visitor, vendor, "[text a quince for the harbour office]")
    vendor.sent(number + 1)  # sent, so that nothing of it is left for the next test
    page.clock.fast_forward(6000)  # it polls for changes this rarely
    newest = rows.filter(has_text="a quince for the harbour office")
    newest.wait_for()
    assert newest.get_attribute("aria-rowindex") == "2", "the first after the column heads"
    page.get_by_role("searchbox", name="Text").fill("quince harbour")
    page.locator(".sessions[aria-rowcount='2']").wait_for()  # the column heads and one result
    assert "ann" in rows.inner_text()
    page.goto(f"{gateway.address}/#/overview")
    page.get_by_role("link", name=re.compile("running")).click()
    page.get_by_role("heading", name="Sessions", level=1).wait_for()
    assert page.get_by_role("combobox", name="State").input_value() == "running"


def test_a_long_transcript_shows_the_usage_of_each_reply_and_turn(
    gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    """Older records load on scrolling; the output of a tool loads when its step is unfolded."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = open_session(visitor, LONGEST)
    turn = page.locator(".turn-line")
    turn.get_by_text("read (67% cached)").wait_for()
    assert re.search(rf"after .* min\s+{2 * STEPS + 1} steps", turn.inner_text())
    link = turn.get_by_role("link", name="Answered")
    assert link.get_attribute("href").startswith("#/turns/turn_")
    reply = visitor.replies.last.locator(".usage-line")
    assert re.fullmatch(
        r"scripted\s+1 s\s+900 read \(67% cached\)\s+40 written\s+\$0\.0021", reply.inner_text()
    )
    head = page.locator(".session-head")
    head.get_by_text("cost $0.").wait_for()
    take_picture(visitor, pictures_directory / "session.png")
    assert "simulated" in head.inner_text() and "person50" in head.inner_text()
    oldest = page.get_by_text("Go through all of it, step by step.")
    while not oldest.count():
        page.locator(".transcript .scroller").evaluate("node => node.scrollTop = 0")
        page.wait_for_timeout(20)
    page.locator(".usage-line", has_text="scripted").nth(STEPS // 2).wait_for()

    page.evaluate(
        """() => {
          const { fetch } = window;
          window.asked = [];
          window.fetch = (...request) => window.asked.push(request[0]) && fetch(...request);
        }"""
    )
    step = page.locator("details.step").last
    step.locator("summary").click()
    step.locator(".output").get_by_text(f"line 199 of step {STEPS - 1}").wait_for()
    assert any("/transcript?after=" in path for path in page.evaluate("window.asked"))


def test_an_operator_writes_in_a_chat_of_others_which_gets_the_reply(
    gateway: SpawnedGateway, visit: Visit, vendor: SimulatedVendor
) -> None:
    """Decision 41, from the page: a turn is followed, steered, approved and stopped there."""
    visitor = visit(gateway)
    number = len(vendor.sent(0))
    session = send_as_ann(visitor, vendor, "[text good day]")
    vendor.sent(number + 1)  # else the next message would interrupt it
    page = open_session(visitor, session)
    visitor.replies.get_by_text("good day").wait_for()
    page.locator(".turn-line").get_by_text("delivered to simulated").last.wait_for()
    assert "the answer is sent to simulated" in page.locator(".composer").inner_text()
    visitor.send("[text from the bridge]")
    visitor.replies.get_by_text("from the bridge").wait_for()
    sent = [each["text"] for each in vendor.sent(number + 2)]
    assert sent[-1] == "from the bridge"
    assert visitor.user_messages.last.locator(".speaker").inner_text() == "operator of this gateway"

    held = HeldTurn(gateway, "bridge")
    visitor.send(held.prompt(last="echo rowed", answer="as you were"))
    page.locator(".step.running").wait_for()
    visitor.choose_busy_mode("Steer")
    with page.expect_response(lambda got: got.request.method == "POST"):
        visitor.send("[text turning to port]")
    held.release()
    visitor.replies.get_by_text("turning to port", exact=True).wait_for()
    assert vendor.sent(number + 3)[-1]["text"] == "turning to port"
    assert visitor.user_messages.last.locator(".speaker").inner_text() == "operator of this gateway"
    page.locator(".session-state", has_text="idle").wait_for()

    visitor.send(SUDO_COMMAND)
    card = page.get_by_role("form", name="Approval")
    page.locator(".session-state.attention").wait_for()
    card.get_by_label("Reason (optional)").fill("not here")
    card.get_by_role("button", name="Deny").click()
    visitor.replies.get_by_text("that was it").wait_for()

    visitor.send(f"{HELD_CALL} [then] [text never said]")
    page.locator(".step.running").wait_for()
    page.locator(".session-head").get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.", exact=True).first.wait_for()
    page.locator(".session-state", has_text="idle").wait_for()
    page.locator(".turn-line", has_text="Stopped").wait_for()
    assert not page.get_by_text("never said", exact=True).count()


def test_a_session_is_suspended_resumed_forked_reset_and_deleted(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """Each action is reported when it is done; what cannot be undone needs a confirmation."""
    visitor = visit(gateway)
    visitor.send_and_wait("[text begun on the page]")
    session = visitor.page.url.rpartition("/")[2]
    page = open_session(visitor, session)
    choose_action(page, "Suspend")
    page.locator(".session-head .readout").get_by_text("Suspended.").wait_for()
    page.locator(".closed").get_by_text("It is suspended").wait_for()
    assert "Suspended" in page.locator(".visually-hidden[role=status]").first.inner_text()
    page.get_by_role("button", name="Resume").click()
    page.locator(".composer").wait_for()

    choose_action(page, "Fork")
    dialog = page.get_by_role("dialog", name="Continue in a copy?")
    dialog.get_by_label("Title of the copy").fill("the copy")
    dialog.get_by_role("button", name="Fork").click()
    page.locator(".session-head h2", has_text="the copy").wait_for()
    visitor.replies.get_by_text("begun on the page").wait_for()
    copy = page.url.rpartition("/")[2]
    assert copy != session

    choose_action(page, "Reset")
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    page.wait_for_function("was => !location.hash.endsWith(was)", arg=copy)
    page.locator(".session-head h2", has_text="New chat").wait_for()
    page.go_back()
    page.locator(".session-head h2", has_text="the copy").wait_for()
    page.locator(".closed").get_by_text("Its chat continues in another session").wait_for()
    choose_action(page, "Delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.wait_for_function("() => location.hash === '#/sessions'")
    page.locator(".sessions .body [role=row]").first.wait_for()
    gone = visitor.context.request.get(
        f"{gateway.address}/api/v1/sessions/{copy}", headers=gateway.auth
    )
    assert gone.status == 404
    opened_again = f"{gateway.address}/#/sessions/{copy}"
    page.goto(opened_again)
    page.get_by_text("This session cannot be opened").wait_for()
    page.get_by_text("it was deleted, or the address is incomplete").wait_for()
    page.goto(f"{gateway.address}/#/chat/{copy}")
    page.get_by_text("This chat cannot be opened").wait_for()
    page.get_by_text("it was deleted, or the address is incomplete").wait_for()


def test_a_viewer_reads_a_session_and_gets_no_controls(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    token = ControlClient(gateway.paths).post("/tokens", {"name": "ann", "scope": "read"})["token"]
    visitor = visit(gateway, login=False)
    page = visitor.page
    page.get_by_label("A token").fill(token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Choose a chat").wait_for()
    open_session(visitor, LONGEST)
    page.locator(".turn-line").get_by_text("steps").wait_for()
    page.locator(".closed").get_by_text("change nothing").wait_for()
    page.get_by_role("button", name="Actions").click()
    assert page.get_by_role("menuitem").all_inner_texts() == ["Export"]
    assert change_controls(page) == []


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_the_session_views_are_accessible(
    gateway: SpawnedGateway, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    page = visitor.page
    open_session_list(visitor, "/platform=irc&user=person7")  # a few rows are enough
    assert serious_violations(page, theme) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    open_session(visitor, session_id_of(3))
    page.locator(".turn-line").get_by_text("1 step").wait_for()
    assert serious_violations(page, theme) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_costs_have_a_currency_and_aligned_digits(gateway: SpawnedGateway, visit: Visit) -> None:
    """The currency is a setting, which applies without a restart."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    page.goto(f"{gateway.address}/#/turns")
    cells = page.locator("td[data-label=Cost]")
    cells.first.wait_for()
    costs = [text for text in cells.all_inner_texts() if "$" in text]
    assert costs
    assert all(re.fullmatch(r"(< )?\$[\d,]+\.\d{4}", text.strip()) for text in costs), costs
    assert "tabular-nums" in cells.first.evaluate(
        "(node) => getComputedStyle(node).fontVariantNumeric"
    )
    visitor.fetch("PATCH", "/api/v1/config", data={"set": {"gateway.currency": "EUR"}})
    page.reload()
    page.locator("td[data-label=Cost]", has_text="€").first.wait_for()
    visitor.fetch("PATCH", "/api/v1/config", data={"unset": ["gateway.currency"]})
