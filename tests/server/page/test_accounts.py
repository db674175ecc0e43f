"""The page says which account of a platform is not let in, and no longer once it is."""

from pathlib import Path

import pytest
from tests.server.page.conftest import Visit
from tests.support.gateway_process import GatewayProcess
from tests.support.simulated_vendor import SimulatedVendor

from holdfast.server.local.control_client import ControlClient


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    vendor.have(connect_refused="the token is revoked")
    (home / "holdfast.toml").write_text(vendor.settings)
    return home


def test_an_account_that_is_refused_is_told_on_the_page_until_it_is_let_in(
    gateway: GatewayProcess, vendor: SimulatedVendor, visit: Visit
) -> None:
    told = visit(gateway).page.get_by_role("alert")
    told.get_by_text("simulated:default is refused for good: the token is revoked.").wait_for()
    vendor.have()
    client = ControlClient(gateway.paths)
    assert client.post("/platforms/simulated/default/resume")["connected"]
    told.wait_for(state="hidden")


def test_whoever_has_no_account_of_a_platform_is_told_how_one_is_set_up(
    demo_gateway: GatewayProcess, visit: Visit
) -> None:
    """And, where no model is, how one is."""
    page = visit(demo_gateway).page
    page.get_by_text("by holdfast setup in a terminal").wait_for()
    page.goto(f"{demo_gateway.address}/#/platforms")
    page.get_by_text("holdfast platforms add telegram").wait_for()


def test_whoever_has_one_is_not(gateway: GatewayProcess, visit: Visit) -> None:
    page = visit(gateway).page
    page.goto(f"{gateway.address}/#/platforms")
    page.get_by_role("heading", name="simulated").wait_for()
    assert page.get_by_text("holdfast platforms add").count() == 0
