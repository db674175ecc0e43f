"""A viewer on the page: they see what the owner sees, and are offered nothing that changes it."""

from typing import Any

from tests.server.page.conftest import Visit
from tests.support.gateway_process import GatewayProcess

from holdfast.server.local.control_client import ControlClient

VIEWS = (
    "overview",
    "sessions",
    "turns",
    "approvals",
    "processes",
    "platforms",
    "outbox/state=all",
    "jobs",
    "logs",
    "audit",
    "settings",
    "settings/prices",
    "settings/history",
    "restarts",
)


def offered(page: Any) -> list[str]:
    """What the page shows that would change something."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-changes]')].filter((e) => e.checkVisibility())"
        ".map((e) => e.outerHTML)"
    )
    return found


def test_a_viewer_logs_in_by_their_token_reads_along_and_is_offered_no_change(
    gateway: GatewayProcess, visit: Visit
) -> None:
    owner = visit(gateway)
    owner.ask("[text for all to see]")
    chat = owner.page.url
    assert offered(owner.page)

    token = ControlClient(gateway.paths).post("/tokens", {"name": "ann"})["token"]
    ann = visit(gateway, login=False)
    ann.page.get_by_label("A token").fill("no-such-token")
    ann.page.get_by_role("button", name="Log in").click()
    assert "no token of this gateway" in ann.page.get_by_role("alert").inner_text()
    ann.page.get_by_label("A token").fill(token)
    ann.page.get_by_role("button", name="Log in").click()
    ann.page.get_by_role("heading", name="Choose a chat").wait_for()
    assert offered(ann.page) == []

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
        assert offered(ann.page) == []

    owner.ask("[text and this one live]")
    ann.replies.nth(1).wait_for()

    for view in VIEWS:
        ann.page.goto(f"{gateway.address}/#/{view}")
        ann.page.locator(".board .views > *").first.wait_for(state="attached")
        ann.page.locator(".board .quiet-text", has_text="Loading").first.wait_for(state="detached")
        assert offered(ann.page) == [], view
        assert ann.page.locator(".board .problem").count() == 0, view
    assert ann.page.get_by_text("You look on as a viewer").is_visible()

    ControlClient(gateway.paths).post("/tokens/revoke", {"name": "ann"})
    ann.page.locator(".login").wait_for()
