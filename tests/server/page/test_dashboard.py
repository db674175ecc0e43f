"""The dashboard: its frame, its views, and how often an open one polls."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.server.page import dashboard
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.pictures import SCREENS, take_picture
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    (home / "holdfast.toml").write_text(dashboard.PRICES + vendor.settings)
    asyncio.run(dashboard.write_history(home))
    return home


def open_view(visitor: Visitor, view: str) -> None:
    """Opens a view by its address and waits until it has loaded."""
    visitor.page.goto(f"{visitor.gateway.address}/#/{view}")
    visitor.page.locator(".views .card").first.wait_for()
    visitor.page.locator(".views .quiet-text", has_text="Loading").first.wait_for(state="detached")


def test_every_view_of_the_dashboard_has_its_own_address(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """Nothing of a view is fetched before it is opened; reload, back and keys lead to the view."""
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    visitor.send_and_wait("[text hello]")
    chat = page.url
    loaded = "performance.getEntriesByType('resource').filter(e => /board[./]/.test(e.name))"
    assert page.evaluate(f"{loaded}.length") == 1, "the frame alone"
    page.get_by_role("link", name="Dashboard").click()
    heading = page.get_by_role("heading", level=1)
    page.locator(".message-counts").wait_for()
    assert (heading.inner_text(), page.title()) == ("Overview", "Overview · Holdfast")
    assert heading.evaluate("node => node === document.activeElement")
    page.reload()
    page.locator(".message-counts").wait_for()
    page.get_by_role("navigation").get_by_role("link", name="Restarts").click()
    page.get_by_role("heading", name="Restarts", level=1).wait_for()
    page.go_back()
    page.locator(".message-counts").wait_for()
    page.go_back()
    visitor.replies.get_by_text("hello").wait_for()
    assert page.url == chat
    page.go_forward()
    page.locator(".message-counts").wait_for()
    page.keyboard.press("Control+k")
    visitor.replies.get_by_text("hello").wait_for()
    page.wait_for_function("document.activeElement.type === 'search'")
    assert page.url == chat


def test_a_picture_is_taken_of_the_dashboard(
    gateway: SpawnedGateway, visit: Visit, pictures_directory: Path
) -> None:
    visitor = visit(gateway, **SCREENS["light"])
    open_view(visitor, "overview")
    visitor.page.locator("figure.chart").nth(8).wait_for()
    take_picture(visitor, pictures_directory / "dashboard.png")


def test_the_overview_shows_the_status_and_the_charts(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    page = visitor.page
    page.route("**/api/v1/status", _without_slow_loop)
    open_view(visitor, "overview")
    status = visitor.fetch("GET", "/api/v1/status").json()
    figures = page.locator(".stat-grid").inner_text()
    assert "Running" in figures and status["version"] in figures
    assert "failed" not in figures and "unknown" not in figures
    accepted = page.locator(".message-counts .total dd").inner_text()
    assert accepted == f"{status['inbox_counts']['accepted']:,}"
    assert "The counts match" in page.locator(".counts-note.balanced").inner_text()
    assert page.get_by_text("No problems.").is_visible()
    charts = page.locator("figure.chart")
    charts.first.wait_for()
    assert charts.count() == 9
    turns = charts.filter(has_text="Turns per minute")
    assert re.match(r"\d+ turns, \d failed", turns.locator(".readout").inner_text())
    assert "in total" in charts.filter(has_text="Cost").locator(".readout").inner_text()

    slider = turns.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    # Both from one drawing: with the next minute the chart moves on.
    first, shown = turns.evaluate(
        "node => [node.querySelector('[role=slider]').getAttribute('aria-valuetext'),"
        " node.querySelector('.readout').innerText]"
    )
    assert first and shown == first
    slider.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != first
    tokens = charts.filter(has_text="Tokens")
    tokens.get_by_role("slider").hover()
    assert "written" in tokens.locator(".readout.marked").inner_text()
    turns.locator("summary").click()
    turns.locator("tbody tr").nth(59).wait_for()
    assert turns.locator("tbody tr").count() == 60
    page.get_by_role("button", name="Last day").click()
    turns.locator("tbody tr").first.wait_for(state="detached")
    assert int(slider.get_attribute("aria-valuemax")) == 95


def _without_slow_loop(route: Any) -> None:
    """The status of the gateway without the problem that a busy machine causes."""
    status = route.fetch().json()
    status["problems"] = [each for each in status["problems"] if each["code"] != "slow_loop"]
    route.fulfill(json=status)


def test_an_account_is_paused_resumed_and_checked(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    open_view(visitor, "platforms")
    account = visitor.page.get_by_label("Accounts").locator("li", has_text="simulated")
    account.get_by_text("connected", exact=True).wait_for()
    account.get_by_role("button", name="Pause simulated").click()
    account.get_by_text("paused", exact=True).wait_for()
    account.get_by_role("button", name="Resume simulated").click()
    account.get_by_text("connected", exact=True).wait_for()
    account.get_by_role("button", name="Check simulated").click()
    account.get_by_text("Last answered").wait_for()
    here = visitor.page.get_by_label("Accounts").locator("li", has_text="Served by the gateway")
    assert here.first.get_by_role("button").count() == 0
    assert visitor.page.get_by_label("Pairing requests").is_visible()


def test_restarts_are_listed_and_requested(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    open_view(visitor, "restarts")
    row = visitor.page.locator("tbody tr").inner_text()
    assert re.search(r"Restarted, requested on the command line\s+2 parked\s+1 s\s+3 s\s+0\.1", row)
    visitor.page.get_by_role("button", name="Restart the gateway…").click()
    dialog = visitor.page.get_by_role("dialog", name="Restart the gateway?")
    dialog.get_by_role("button", name="Cancel").click()
    dialog.wait_for(state="hidden")


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_every_view_is_accessible(
    gateway: SpawnedGateway, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    page = visitor.page
    for view in ("overview", "platforms", "restarts"):
        open_view(visitor, view)
        if view == "overview":
            page.locator("figure.chart").first.wait_for()
        assert serious_violations(page, theme) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if viewport is PHONE:
        page.get_by_role("button", name="Open the list of views").click()
        page.get_by_role("navigation").get_by_role("link", name="Platforms").click()
        page.get_by_role("heading", name="Platforms", level=1).wait_for()
        page.locator(".sidebar").wait_for(state="hidden")


def test_an_open_dashboard_polls_rarely_and_a_hidden_one_never(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(
        gateway, viewport=DESKTOP, alone=True
    )  # the clock is installed in the whole context
    page = visitor.page
    page.clock.install()
    open_view(visitor, "overview")
    page.locator("figure.chart").first.wait_for()
    page.evaluate(
        """() => {
          const { fetch } = window;
          window.asked = [];
          window.fetch = (...request) => window.asked.push(request[0]) && fetch(...request);
        }"""
    )
    page.clock.run_for(60_000)
    asked = page.evaluate("window.asked")
    ours = {"/api/v1/status", "/api/v1/chart?span=hour"}
    counted = "/api/v1/approvals?pending=true&limit=100"  # after an event
    seldom = "/api/v1/outbox?state=failed&limit=1"
    assert ours <= set(asked) <= {*ours, counted, seldom}
    assert asked.count(seldom) <= 1
    assert len(asked) <= 15, "each every ten seconds"
    page.evaluate(
        """() => {
          Object.defineProperty(document, "hidden", { value: true, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
          window.asked = []; // only now: the clock runs on between two calls
        }"""
    )
    page.clock.run_for(60_000)
    assert page.evaluate("window.asked") == []


def test_a_view_that_fails_to_load_shows_the_error_and_stops_loading(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway, viewport=DESKTOP)
    page = visitor.page
    broken = json.dumps({"error": {"message": "The disk is full.", "code": "store_unavailable"}})
    views = re.compile(r"/api/v1/(?!events|whoami|commands|approvals\?pending)")
    page.route(views, lambda asked: asked.fulfill(status=500, body=broken))
    for view in dashboard.VIEWS:
        page.goto(f"{gateway.address}/#/{view}")
        page.locator("h1", has_text=re.compile(view.split("/")[0], re.IGNORECASE)).wait_for()
        page.locator(".board [role=alert]").first.wait_for()
        page.locator(".views:not(:has-text('Loading…'))").wait_for()


def test_a_message_that_no_turn_works_on_is_reported_as_a_problem(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """G3: nothing brings a row to its end that was inserted by hand."""
    visitor = visit(gateway)
    visitor.send_and_wait("[text hello]")
    db = apsw.Connection(str(gateway.paths.db))
    db.set_busy_timeout(10_000)
    db.execute(
        "INSERT INTO inbox"
        " (platform, account, event_id, route, principal, state, accepted_at, body)"
        " SELECT platform, account, 'by hand', route, principal, 'queued', accepted_at - 300, body"
        " FROM inbox ORDER BY id LIMIT 1"
    )
    open_view(visitor, "overview")
    alarm = visitor.page.locator(".counts-note.alarm")
    alarm.wait_for()
    assert "no turn works on 1" in alarm.inner_text()
    problem = visitor.page.locator(".problem-list li.problem")
    assert "1 message was accepted, is not answered" in problem.inner_text()
    assert problem.locator("code").inner_text() == "holdfast gateway restart"
    assert problem.get_by_role("link", name="Restarts").get_attribute("href") == "#/restarts"
    assert serious_violations(visitor.page, "dark") == []  # the colours of what is new here
    db.execute("DELETE FROM inbox WHERE event_id = 'by hand'")
    db.close()
    visitor.page.reload()
    visitor.page.locator(".counts-note.balanced").wait_for()
