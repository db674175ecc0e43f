"""The lists of the dashboard: the outbox, jobs, the log, the audit, restarts, page by page."""

import asyncio
import json
import re
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.server.page.accessibility import DESKTOP, PHONE, serious_violations
from tests.server.page.pictures import SHORT_SCREEN, take_picture
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.core.ports.store_commands import RecordStop
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths

RESTARTS = 25  # more than one page
LOG_LINES = 4_500  # more than the page holds
LINES_PER_STREAM = 1_500
ACCOUNT_PATH = "/api/v1/platforms/simulated/default"


async def write_stops(home: Path) -> None:
    """Writes the stops of earlier processes, the last of which crashed."""
    now = time.time()
    async with SqliteStore(Paths(home).db) as store:
        for n in range(RESTARTS):
            kind = StopKind.CRASH if n == 0 else StopKind.RESTART
            order = StopOrder(
                kind=kind, by=StopRequester.NONE if n == 0 else StopRequester.CLI, at=now - n
            )
            stop = StopRow(id=f"stop_{n}", order=order, version=f"0.{n}", ready_at=now)
            await store.write(RecordStop(row=stop))


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    (home / "holdfast.toml").write_text(vendor.settings)
    asyncio.run(write_stops(home))
    return home


def open_view(visitor: Visitor, view: str) -> Any:
    """Opens a view by its address and waits until it has loaded."""
    visitor.page.goto(f"{visitor.gateway.address}/#/{view}")
    visitor.page.locator(".views > *").first.wait_for()
    visitor.page.locator(".views .quiet-text", has_text="Loading").first.wait_for(state="detached")
    return visitor.page


def send(visitor: Visitor, text: str, state: str) -> None:
    """Sends a message to the simulated platform and waits until it ends in this state. `unknown`
    can also be an intermediate state: then the delivery is still blocked by something."""
    body = {"to": "simulated:ann", "text": text}
    sent = visitor.fetch("POST", "/api/v1/send", data=body).json()["id"]
    while True:
        unsent = visitor.fetch("GET", "/api/v1/outbox?state=unsent").json()["deliveries"]
        if (sent, state, None) in [(row["id"], row["state"], row["blocked_by"]) for row in unsent]:
            return
        visitor.page.wait_for_timeout(50)


def test_a_failed_delivery_is_listed_with_a_remedy_and_sent_again(
    gateway: SpawnedGateway, visit: Visit, vendor: SimulatedVendor, pictures_directory: Path
) -> None:
    """I2: one that may have arrived needs a confirmation, and is sent as possibly repeated."""
    visitor = visit(gateway, **SHORT_SCREEN)
    vendor.set_faults(refusals=1)
    send(visitor, "refused words", "failed")
    vendor.set_faults(lost_receipts=2)
    send(visitor, "words in doubt", "unknown")
    vendor.set_faults()
    page = open_view(visitor, "overview")
    outbox_counts = page.locator(".stat-grid").filter(
        has=page.get_by_role("link", name="1 unknown")
    )
    outbox_counts.get_by_role("link", name="1 failed").click()
    page.get_by_role("row").filter(has_text="refused words").wait_for()
    page = open_view(visitor, "outbox")
    refused = page.get_by_role("row").filter(has_text="refused words")
    assert "Fix what the platform reports" in refused.inner_text()
    doubtful = page.get_by_role("row").filter(has_text="words in doubt")
    assert "Check the chat first." in doubtful.inner_text()
    take_picture(visitor, pictures_directory / "outbox.png")
    page.get_by_role("link", name=re.compile("^Failed 1")).click()
    doubtful.wait_for(state="detached")
    page.reload()
    refused.get_by_role("button", name="Send again").click()
    page.get_by_text("No delivery has failed.").wait_for()
    page.get_by_label("Platform").select_option("web")
    page.get_by_role("link", name=re.compile("^Unknown 1")).click()
    page.get_by_text("The outcome of every delivery is known.").wait_for()
    assert page.url.endswith("#/outbox/state=unknown&platform=web")
    page.get_by_label("Platform").select_option("simulated")
    doubtful.get_by_role("button", name="Send again").click()
    dialog = page.get_by_role("dialog", name="Send it again?")
    assert "may be in the chat already" in dialog.inner_text()
    dialog.get_by_role("button", name="Send again").click()
    dialog.wait_for(state="hidden")
    with urllib.request.urlopen(f"{vendor.base_url}/ledger?sent=4&wait=30") as answer:
        sent = [each["outgoing"] for each in json.load(answer)["sent"]]
    marks = [each.get("maybe_repeated", False) for each in sent if "words in doubt" in each["text"]]
    assert marks == [False, True, True]


def test_a_job_is_made_run_paused_and_removed(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    page = open_view(visitor, "jobs")
    page.get_by_text("There are no jobs.").wait_for()
    page.get_by_role("button", name="Add a job").click()
    form = page.get_by_role("form", name="New job")
    form.get_by_label("When").fill("every weekday att 9")
    form.get_by_label("Task for the agent").fill("[text as dry as ever]")
    form.get_by_role("button", name="Add").click()
    form.get_by_role("alert").get_by_text("but not “att 9”").wait_for()
    form.get_by_label("When").fill("every weekday at 9 in Asia/Kathmandu")
    form.get_by_text("Options", exact=True).click()
    form.get_by_label("Name").fill("weather")
    form.get_by_label("Answer to").fill("nowhere")
    form.get_by_role("button", name="Add").click()
    page.get_by_role("heading", name="weather").wait_for()
    assert page.locator(".about").get_by_text("09:00 AM in Asia/Kathmandu").count() == 3
    page.get_by_role("button", name="Run now").click()
    run = page.get_by_label("Runs").get_by_role("row").filter(has_text="as dry as ever")
    run.get_by_text("answered").wait_for()
    session = run.get_by_role("link").first.get_attribute("href")
    assert session and session.startswith("#/sessions/")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").wait_for()
    page.get_by_role("button", name="Change…").click()
    form = page.get_by_role("form", name="Change weather")
    form.get_by_label("Task for the agent").fill("say whether it rains")
    form.get_by_role("button", name="Save").click()
    page.locator(".full-text").get_by_text("say whether it rains").wait_for()
    assert page.locator(".about").get_by_text("every weekday at 9").count() == 1
    page.get_by_role("link", name="All jobs").click()
    row = page.get_by_role("row").filter(has_text="weather")
    row.get_by_text("paused").wait_for()
    row.get_by_text("answered").wait_for()  # its last run
    row.get_by_role("link", name="weather").click()
    page.get_by_role("button", name="Remove…").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("There are no jobs.").wait_for()


def test_the_log_is_followed_filtered_and_paused(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    page = open_view(visitor, "logs")
    lines = page.locator(".log-line")
    page.get_by_role("button", name="Ready at").click()
    chosen = page.get_by_label("The selected line")
    assert "ready" in chosen.locator(".about").inner_text()
    chosen.get_by_role("button", name="Close").click()

    page.get_by_label("Text", exact=True).fill("simulated:default is")
    page.get_by_text("Ready at").wait_for(state="detached")
    lines.first.wait_for()  # the matching lines arrive together
    before = lines.count()
    visitor.fetch("POST", f"{ACCOUNT_PATH}/pause")
    lines.get_by_text("Account simulated:default is paused").wait_for()
    page.get_by_role("button", name="Pause", exact=True).click()
    visitor.fetch("POST", f"{ACCOUNT_PATH}/resume")
    page.get_by_text("Paused: lines that are written meanwhile").wait_for()
    assert lines.count() == before + 1
    page.get_by_role("button", name="Continue").click()
    lines.nth(before + 1).wait_for()
    texts = lines.locator("button").all_inner_texts()
    assert texts[before:] == [
        "Account simulated:default is paused",
        "Account simulated:default is connected",
    ]
    page.get_by_label("Level").select_option("error")
    page.get_by_text("No line of this process matches.").wait_for()
    assert "level=error" in page.url


def test_the_log_view_keeps_the_newest_lines_and_draws_only_the_visible_ones(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """A stream that breaks off continues after the last line: no line is repeated or missing,
    and the view shows where the gateway no longer has lines."""
    visitor = visit(gateway)
    page = visitor.page
    asked: list[int] = []

    def line(number: int) -> dict[str, Any]:
        about = {"time": "2026-05-02T09:14:03.000+00:00", "level": "info", "logger": "test"}
        return {
            "number": number,
            "message": f"line {number}",
            "fields": {},
            "exception": "",
            **about,
        }

    def stream(route: Any) -> None:
        after = int(parse_qs(urlsplit(route.request.url).query)["after"][0])
        asked.append(after)
        numbers = range(after + 1, min(after + LINES_PER_STREAM, LOG_LINES) + 1)
        events = [f"id: {n}\nevent: line\ndata: {json.dumps(line(n))}\n\n" for n in numbers]
        if len(asked) == 3:
            events.insert(0, f'event: missed\ndata: {{"after": {after}}}\n\n')
        body = "retry: 1000\n\n" + "".join(events)
        route.fulfill(body=body, content_type="text/event-stream")

    page.route("**/api/v1/logs/events?*", stream)
    first = {"lines": [line(n) for n in range(1, 301)], "more": False, "newest": 300}
    page.route("**/api/v1/logs?*", lambda route: route.fulfill(json=first))
    open_view(visitor, "logs")
    page.get_by_text(f"line {LOG_LINES}", exact=True).wait_for()
    table = page.get_by_role("table", name="Lines")
    assert table.get_attribute("aria-rowcount") == "2000"
    assert table.get_by_role("row").count() < 200, "only those near the visible ones"
    assert asked[:3] == [300, 300 + LINES_PER_STREAM, 300 + 2 * LINES_PER_STREAM]

    box = page.locator(".log-lines")
    box.evaluate("node => { node.scrollTop = 0; }")
    page.get_by_text(f"line {LOG_LINES - 1998}", exact=True).wait_for()
    scroll_to = "(node, share) => { node.scrollTop = share * node.scrollHeight; }"
    box.evaluate(scroll_to, (1999 - LOG_LINES + asked[2]) / 2000)
    page.get_by_text("Some lines here are no longer in memory").wait_for()
    page.get_by_role("button", name="Newest").click()
    page.get_by_text(f"line {LOG_LINES}", exact=True).wait_for()
    shown = table.get_by_role("button").all_inner_texts()
    last = [f"line {n}" for n in range(LOG_LINES - len(shown) + 1, LOG_LINES + 1)]
    assert shown == last, "each once, in order"


def test_the_audit_is_filtered_followed_verified_and_exported(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.page.clock.install()
    page = open_view(visitor, "audit")
    page.get_by_role("combobox", name="What").select_option("account")
    page.get_by_role("row").filter(has_text="gateway.left").first.wait_for(state="detached")
    assert page.url.endswith("#/audit/kind=account")
    rows = page.locator("tbody tr")
    before = rows.count()
    visitor.fetch("POST", f"{ACCOUNT_PATH}/pause")
    page.clock.run_for(6_000)  # a busy gateway is not asked after every row
    rows.nth(before).wait_for()
    assert "account.paused" in rows.first.inner_text() and "operator" in rows.first.inner_text()
    visitor.fetch("POST", f"{ACCOUNT_PATH}/resume")
    page.get_by_role("button", name="Verify the chain").click()
    page.get_by_text(re.compile("The chain of .* rows is intact")).wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    head, *taken = Path(download.value.path()).read_text().splitlines()
    assert "kind" in head and all("account." in each for each in taken) and len(taken) > before
    page.get_by_label("Who").fill("nobody at all")
    page.get_by_text("No row matches.").wait_for()


def test_restarts_are_paged_back_to_the_first(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    page = open_view(visitor, "restarts")
    rows = page.locator("tbody tr")
    rows.nth(19).wait_for()
    assert "The process ended without a stop" in rows.first.inner_text()
    page.get_by_role("link", name="Older").click()
    page.get_by_text(f"0.{RESTARTS - 1}", exact=True).wait_for()
    assert rows.count() == RESTARTS - 20 and page.get_by_role("link", name="Older").count() == 0
    page.go_back()
    rows.nth(19).wait_for()


@pytest.mark.parametrize(("theme", "viewport"), [("light", DESKTOP), ("dark", PHONE)])
def test_every_list_is_accessible(
    gateway: SpawnedGateway, visit: Visit, theme: str, viewport: dict[str, int]
) -> None:
    visitor = visit(gateway, color_scheme=theme, viewport=viewport)
    for view in ("outbox/state=all", "jobs", "logs", "audit/kind=account"):
        page = open_view(visitor, view)
        if view == "jobs":
            page.get_by_role("button", name="Add a job").click()
        if view == "logs":
            page.get_by_role("button", name="Ready at").click()
        assert serious_violations(page, theme, within=".views") == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
