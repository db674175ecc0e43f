"""The page says which account of a platform is not let in, and no longer once it is."""

from pathlib import Path

import pytest
from tests.platforms.served import Served
from tests.platforms.vendor import Vendor
from tests.web.conftest import Visit

from holdfast.control.client import ControlClient


@pytest.fixture(scope="module")
def home(home: Path, vendor: Vendor) -> Path:
    vendor.have(shut_out="the token is revoked")
    (home / "holdfast.toml").write_text(vendor.settings)
    return home


def test_an_account_that_is_refused_is_told_on_the_page_until_it_is_let_in(
    gateway: Served, vendor: Vendor, visit: Visit
) -> None:
    told = visit(gateway).page.get_by_role("alert")
    told.get_by_text("simulated:default is refused for good: the token is revoked.").wait_for()
    vendor.have()
    client = ControlClient(gateway.paths)
    assert client.post("/platforms/simulated/default/resume")["connected"]
    told.wait_for(state="hidden")
