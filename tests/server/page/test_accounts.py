"""Accounts on the page: one that is refused, and how to set one up."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.server.page.dashboard import VIEWS
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.server.local.control_client import ControlClient


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    vendor.set_faults(connect_refused="the token is revoked")
    nowhere = '[platforms.irc]\nhost = "127.0.0.1"\nport = 9\nnick = "bot"\ntls = false\n'
    (home / "holdfast.toml").write_text(vendor.settings + nowhere)
    return home


def test_a_refused_account_is_reported_on_the_page_until_it_connects(
    gateway: SpawnedGateway, vendor: SimulatedVendor, visit: Visit
) -> None:
    alert = visit(gateway).page.get_by_role("alert")
    alert.get_by_text("simulated:default is refused for good: the token is revoked.").wait_for()
    vendor.set_faults()
    client = ControlClient(gateway.paths)
    assert client.post("/platforms/simulated/default/resume")["connected"]
    alert.wait_for(state="hidden")


def test_an_answer_that_is_older_than_an_event_does_not_bring_a_refused_account_back(
    gateway: SpawnedGateway, vendor: SimulatedVendor, visit: Visit
) -> None:
    """The page asks for the status when its stream opens; the account connects meanwhile."""
    vendor.set_faults(connect_refused="the token is revoked")
    client = ControlClient(gateway.paths)
    client.post("/platforms/simulated/default/pause")
    client.post("/platforms/simulated/default/resume")
    visitor = visit(gateway)
    address = visitor.page.url
    visitor.page.goto("about:blank")
    held: list[Any] = []
    answered = 0

    def hold_the_second(route: Any) -> None:
        nonlocal answered
        answered += 1
        if answered == 1:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    visitor.page.route("**/api/v1/status", hold_the_second)
    visitor.page.goto(address)
    alert = visitor.page.get_by_role("alert")
    alert.get_by_text("simulated:default is refused for good: the token is revoked.").wait_for()
    while not held:
        visitor.page.wait_for_timeout(20)
    vendor.set_faults()
    assert client.post("/platforms/simulated/default/resume")["connected"]
    alert.wait_for(state="hidden")
    [(route, older)] = held
    with visitor.page.expect_response("**/api/v1/status"):
        route.fulfill(response=older)
    visitor.page.evaluate(
        "new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn, 50)))"
    )
    assert alert.count() == 0


def test_a_page_without_accounts_shows_how_to_set_one_up(
    demo_gateway: SpawnedGateway, visit: Visit
) -> None:
    """It also shows how to set up a model where there is none."""
    page = visit(demo_gateway).page
    page.get_by_text("with holdfast setup in a terminal").wait_for()
    page.goto(f"{demo_gateway.address}/#/platforms")
    page.get_by_text("holdfast platforms add telegram").wait_for()


def test_a_page_with_an_account_shows_no_setup_hint(gateway: SpawnedGateway, visit: Visit) -> None:
    page = visit(gateway).page
    page.goto(f"{gateway.address}/#/platforms")
    page.get_by_role("heading", name="simulated").wait_for()
    assert page.get_by_text("holdfast platforms add").count() == 0


def test_a_check_of_an_account_shows_its_result(
    gateway: SpawnedGateway, vendor: SimulatedVendor, visit: Visit
) -> None:
    vendor.set_faults()
    page = visit(gateway).page
    page.goto(f"{gateway.address}/#/platforms")
    check = page.get_by_role("button", name="Check simulated")
    check.click()
    page.get_by_role("status").get_by_text("it is connected and answers").wait_for()
    vendor.set_faults(connect_refused="the token is revoked")
    client = ControlClient(gateway.paths)
    client.post("/platforms/simulated/default/pause")
    client.post("/platforms/simulated/default/resume")
    check.click()
    page.get_by_role("status").get_by_text("it is not connected").wait_for()
    vendor.set_faults()


def test_no_number_of_an_error_and_no_internal_name_is_shown(
    gateway: SpawnedGateway, vendor: SimulatedVendor, visit: Visit
) -> None:
    """In any view, after a chat, a subagent and a job."""
    visitor = visit(gateway)
    page = visitor.page
    visitor.send_and_wait(
        '[tool delegate {"tasks": [{"task": "[text below]"}]}] [then] [text over]'
    )
    session = page.url.rpartition("/")[2]
    body = {"text": "[text it ran]", "when": "every day at 9", "to": "nowhere"}
    job = visitor.fetch("POST", "/api/v1/jobs", data=body).json()
    visitor.fetch("POST", f"/api/v1/jobs/{job['id']}/run")
    while visitor.fetch("GET", f"/api/v1/jobs/{job['id']}").json()["last_run"] is None:
        page.wait_for_timeout(30)
    turns = visitor.fetch("GET", "/api/v1/turns").json()["turns"]
    addresses = [*VIEWS, f"sessions/{session}", *(f"turns/{turn['id']}" for turn in turns)]
    for address in addresses:
        page.goto(f"{gateway.address}/#/{address}")
        page.locator(
            ".card, .sessions, .session-head, .waterfall, .log-lines, .log"
        ).first.wait_for()
        shown = page.evaluate(
            "[document.body.innerText, ...[...document.querySelectorAll('[title]')]"
            ".map((node) => node.title)].join(' ')"
        )
        found = re.search(r".{0,40}(?:\bhouse:|page-[0-9a-f]{8}|\[Errno).{0,40}", shown)
        assert found is None, (address, found)
