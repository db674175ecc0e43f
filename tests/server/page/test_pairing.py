"""Pairing on the page: people are paired by their code, denied, and removed again."""

from pathlib import Path

import pytest
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway
from tests.support.simulated_vendor import SimulatedVendor


@pytest.fixture(scope="module")
def home(home: Path, vendor: SimulatedVendor) -> Path:
    (home / "holdfast.toml").write_text(vendor.settings)
    return home


def test_people_are_paired_denied_and_removed_on_the_page(
    gateway: SpawnedGateway, visit: Visit, vendor: SimulatedVendor
) -> None:
    vendor.say("hello", user="eve", user_name="<b>Eve</b>")
    vendor.sent(1)  # she was first
    vendor.say("hello", user="mallory")
    codes = {vendor.sent(2)[each]["chat_id"]: vendor.pairing_code(each + 1) for each in (0, 1)}
    visitor = visit(gateway)
    visitor.send_and_wait("[text hello]")
    visitor.page.get_by_role("button", name="People", exact=True).click()
    panel = visitor.page.get_by_role("complementary", name="People")
    waiting = panel.get_by_label("Pairing requests").locator("li")
    waiting.nth(1).wait_for()
    assert "<b>Eve</b> simulated:default:eve" in waiting.first.inner_text()

    panel.get_by_label("The code they tell you").fill("AAAA-AAAA")
    panel.get_by_role("button", name="Approve").click()
    assert "4 more wrong codes" in panel.get_by_role("alert").inner_text()
    panel.get_by_label("Deny simulated:default:mallory").click()
    waiting.nth(1).wait_for(state="detached")

    panel.get_by_label("The code they tell you").fill(codes["eve"].lower())
    panel.get_by_role("button", name="Approve").click()
    person = panel.get_by_label("Paired users").locator("li")
    person.wait_for()
    assert waiting.count() == 0
    assert vendor.sent(3)[2]["chat_id"] == "eve"

    panel.get_by_label("Revoke access of simulated:default:eve").click()
    visitor.page.get_by_role("dialog").get_by_role("button", name="Revoke access").click()
    person.wait_for(state="detached")
    assert visitor.page.get_by_role("alert").count() == 0
