"""A viewer on the page sees what the owner sees, and gets no control that changes anything."""

from tests.server.page.dashboard import VIEWS, change_controls
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway

from holdfast.server.local.control_client import ControlClient


def test_a_viewer_logs_in_with_a_token_reads_live_and_gets_no_controls(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    owner = visit(gateway)
    owner.send_and_wait("[text for all to see]")
    chat = owner.page.url
    assert change_controls(owner.page)

    token = ControlClient(gateway.paths).post("/tokens", {"name": "ann", "scope": "read"})["token"]
    ann = visit(gateway, login=False)
    ann.page.get_by_label("A token").fill("no-such-token")
    ann.page.get_by_role("button", name="Log in").click()
    assert "not a token of this gateway" in ann.page.get_by_role("alert").inner_text()
    ann.page.get_by_label("A token").fill(token)
    ann.page.get_by_role("button", name="Log in").click()
    ann.page.get_by_role("heading", name="Choose a chat").wait_for()
    assert change_controls(ann.page) == []

    ann.page.goto(chat)
    ann.replies.first.wait_for()
    assert ann.replies.first.inner_text() == owner.replies.first.inner_text()
    assert ann.page.locator(".composer").count() == 0
    assert "change nothing" in ann.page.locator(".closed").inner_text()
    ann.page.get_by_role("button", name="More", exact=True).click()
    assert ann.page.get_by_role("menuitem").all_inner_texts() == ["Export"]
    ann.page.keyboard.press("Escape")
    for panel in ("Memory", "People", "Processes"):
        ann.page.get_by_role("button", name=panel, exact=True).first.click()
        ann.page.get_by_role("complementary", name=panel).wait_for()
        assert change_controls(ann.page) == []

    owner.send_and_wait("[text and this one live]")
    ann.replies.nth(1).wait_for()

    for view in VIEWS:
        ann.page.goto(f"{gateway.address}/#/{view}")
        ann.page.locator(".board .views > *").first.wait_for(state="attached")
        ann.page.locator(".board .quiet-text", has_text="Loading").first.wait_for(state="detached")
        assert change_controls(ann.page) == [], view
        assert ann.page.locator(".board .problem").count() == 0, view
    assert ann.page.get_by_text("Viewer: read-only").is_visible()

    ControlClient(gateway.paths).post("/tokens/revoke", {"name": "ann"})
    ann.page.locator(".login").wait_for()
