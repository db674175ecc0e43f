"""The approval card: shown, answered, and removed when the decision is made (J3)."""

import re

import pytest
from tests.server.page.accessibility import PHONE
from tests.server.page.prompts import SUDO_COMMAND
from tests.server.page.visitor import Visit, Visitor
from tests.support.gateway_process import SpawnedGateway


def request_approval(visitor: Visitor, text: str = SUDO_COMMAND) -> None:
    visitor.send(text)
    visitor.page.get_by_role("form", name="Approval").wait_for()


def test_a_command_is_shown_with_why_and_runs_when_it_is_allowed(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """J3: the card comes by the stream, and goes when the answer is durable."""
    visitor = visit(gateway)
    request_approval(visitor)
    card = visitor.page.get_by_role("form", name="Approval")
    assert "sudo -n true" in card.inner_text()
    assert re.search(r"5[89] min( \d+ s)? left|1 h left", card.inner_text())
    card.get_by_role("button", name="Run once").click()
    card.wait_for(state="hidden")
    visitor.replies.get_by_text("that was it").wait_for()
    visitor.until_idle()
    visitor.replies.locator("details.step").first.locator("summary").click()
    visitor.replies.locator(".output").get_by_text("it ran").wait_for()


def test_a_denied_command_does_not_run_and_the_agent_gets_the_reason(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    request_approval(visitor)
    card = visitor.page.get_by_role("form", name="Approval")
    card.get_by_label("Reason (optional)").fill("not on a Sunday")
    card.get_by_role("button", name="Deny").click()
    visitor.replies.get_by_text("that was it").wait_for()
    visitor.until_idle()
    step = visitor.replies.locator("details.step").first
    assert "denied" in step.locator(".outcome.denied").inner_text()
    step.locator("summary").click()
    step.locator(".output").get_by_text("not on a Sunday").wait_for()


def test_the_card_survives_a_reload_and_an_answer_elsewhere_removes_it(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    request_approval(visitor)
    visitor.page.reload()
    card = visitor.page.get_by_role("form", name="Approval")
    card.wait_for()
    session = visitor.page.url.rpartition("/")[2]
    (pending,) = visitor.fetch("GET", f"/api/v1/approvals?pending=true&session={session}").json()
    body = {"answer": "deny"}
    visitor.fetch("POST", f"/api/v1/approvals/{pending['id']}", data=body)
    card.wait_for(state="hidden")
    visitor.replies.get_by_text("that was it").wait_for()


def test_a_stop_withdraws_the_approval_request(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    request_approval(visitor)
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.get_by_role("form", name="Approval").wait_for(state="hidden")
    visitor.until_idle()


def test_a_background_subagent_asks_for_approval_in_the_chat_that_started_it(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """Also while the chat itself is idle: it has no stop button."""
    visitor = visit(gateway)
    visitor.send_and_wait("hello")
    visitor.send(f"/background {SUDO_COMMAND}")
    card = visitor.page.get_by_role("form", name="Approval")
    card.wait_for()
    assert visitor.page.locator(".stop").count() == 0
    card.get_by_role("button", name="Run once").click()
    card.wait_for(state="hidden")
    visitor.page.locator(".note summary").get_by_text("has ended.").wait_for()


def test_the_list_of_chats_shows_pending_approvals(gateway: SpawnedGateway, visit: Visit) -> None:
    """Also that of a subagent that works in the background, while its chat is idle; and on a phone
    before the list is open."""
    visitor = visit(gateway)
    page = visitor.page
    visitor.send_and_wait("[text the first chat]")
    visitor.send(f"/background {SUDO_COMMAND}")
    page.get_by_role("form", name="Approval").wait_for()
    visitor.new_chat()
    asks = page.locator(".chat-link", has=page.locator(".asks"))
    asks.get_by_text("the first chat").wait_for()
    assert asks.get_by_role("img", name="waiting for a person").count() == 1
    pending = page.get_by_role("link", name="1 approval is pending")
    pending.wait_for()
    visitor.set_screen(viewport=PHONE)
    page.get_by_role("button", name="Open the list of chats: 1 approval is pending").click()
    pending.click()
    page.get_by_role("form", name="Approval").get_by_role("button", name="Deny").click()
    page.get_by_role("form", name="Approval").wait_for(state="hidden")
    page.get_by_role("button", name="Open the list of views", exact=True).wait_for()


_LOOK = """(node) => {
  const { color, borderTopColor, borderTopStyle } = getComputedStyle(node.closest(".step") ?? node);
  const mark = node.querySelector?.(".outcome") ?? node;
  const icon = mark.querySelector?.("path")?.getAttribute("d") ?? "";
  return [icon, getComputedStyle(mark).color, borderTopColor, borderTopStyle, color].join(" ");
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_waiting_denied_failed_and_done_look_different(
    gateway: SpawnedGateway, visit: Visit, theme: str
) -> None:
    """By icon and by colour: the steps of a chat, the turns, the decided approvals, and the chats
    in the list."""
    visitor = visit(gateway, color_scheme=theme)
    page = visitor.page
    visitor.send_and_wait('[tool terminal {"command": "true"}] [then] [text well]')
    visitor.send_and_wait('[tool terminal {"command": "false"}] [then] [text well]')
    for answer in ("Run once", "Deny"):
        request_approval(visitor)
        page.get_by_role("form", name="Approval").get_by_role("button", name=answer).click()
        page.get_by_role("form", name="Approval").wait_for(state="hidden")
        visitor.until_idle()
    request_approval(visitor)
    done, failed, _ran, denied, waiting = (page.locator(".step").nth(n) for n in range(5))
    page.locator(".step.waiting").wait_for()
    looks = [step.evaluate(_LOOK) for step in (done, failed, denied, waiting)]
    for part in range(2):  # the icon alone, and the colour alone
        seen = {re.split(r" (?=rgb)", look)[part] for look in looks}
        assert len(seen) == len(looks), looks
    dots = [
        page.evaluate(
            """(kind) => {
              const dot = document.createElement("span");
              dot.className = `dot ${kind}`;
              document.querySelector(".chats").append(dot);
              const { backgroundColor } = getComputedStyle(dot);
              dot.remove();
              return backgroundColor;
            }""",
            kind,
        )
        for kind in ("waiting", "running", "")
    ]
    assert len({*dots}) == 3, dots
    page.locator(".chat-link[aria-current] .dot.waiting").wait_for()
    page.goto(f"{gateway.address}/#/turns")
    badge = page.locator("td .badge")
    badge.first.wait_for()
    colours = {
        name: badge.get_by_text(name, exact=True).first.evaluate(
            "(node) => getComputedStyle(node).color + getComputedStyle(node).backgroundColor"
        )
        for name in ("waiting", "answered")
    }
    assert len({*colours.values()}) == 2, colours
    page.goto(f"{gateway.address}/#/approvals")
    page.locator(".badge.denied", has_text="denied").first.wait_for()
    page.locator(".badge.good", has_text="approved once").first.wait_for()
    page.get_by_role("form", name="Approval").first.get_by_role("button", name="Deny").click()
    page.get_by_role("form", name="Approval").wait_for(state="hidden")
