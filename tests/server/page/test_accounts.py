"""Accounts on the page: one that is refused, and how to set one up."""

from pathlib import Path
from typing import Any

import pytest
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.server.local.control_client import ControlClient


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    vendor.set_faults(connect_refused="the token is revoked")
    (home / "holdfast.toml").write_text(vendor.settings)
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
