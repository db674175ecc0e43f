"""The approval card, in a real browser: asked, answered, and told how it ended."""

import re

from tests.server.page.conftest import Visit
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

SUDO = '[tool terminal {"command": "sudo -n true; echo it ran"}] [then] [text that was it]'


def asked(visitor: Visitor, text: str = SUDO) -> None:
    visitor.say(text)
    visitor.page.get_by_role("form", name="Approval").wait_for()


def test_a_command_is_shown_with_why_and_runs_when_it_is_allowed(
    gateway: GatewayProcess, visit: Visit
) -> None:
    """J3: the card comes by the stream, and goes when the answer is durable."""
    visitor = visit(gateway)
    asked(visitor)
    card = visitor.page.get_by_role("form", name="Approval")
    assert "sudo -n true" in card.inner_text()
    assert re.search(r"5[89] min( \d+ s)? left|1 h left", card.inner_text())
    card.get_by_role("button", name="Run once").click()
    card.wait_for(state="hidden")
    visitor.replies.get_by_text("that was it").wait_for()
    visitor.until_idle()
    visitor.replies.locator("details.step").first.locator("summary").click()
    visitor.replies.locator(".output").get_by_text("it ran").wait_for()


def test_a_denied_command_does_not_run_and_the_agent_hears_why(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    asked(visitor)
    card = visitor.page.get_by_role("form", name="Approval")
    card.get_by_label("Why not").fill("not on a Sunday")
    card.get_by_role("button", name="Deny").click()
    visitor.replies.get_by_text("that was it").wait_for()
    visitor.until_idle()
    step = visitor.replies.locator("details.step").first
    assert "refused" in step.locator(".outcome").inner_text()
    step.locator("summary").click()
    step.locator(".output").get_by_text("not on a Sunday").wait_for()


def test_the_card_is_there_again_after_a_reload_and_an_answer_elsewhere_takes_it_away(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    asked(visitor)
    visitor.page.reload()
    card = visitor.page.get_by_role("form", name="Approval")
    card.wait_for()
    session = visitor.page.url.rpartition("/")[2]
    (pending,) = visitor.fetch("GET", f"/api/v1/approvals?pending=true&session={session}").json()
    body = {"answer": "deny"}
    visitor.fetch("POST", f"/api/v1/approvals/{pending['id']}", data=body)
    card.wait_for(state="hidden")
    visitor.replies.get_by_text("that was it").wait_for()


def test_a_stop_takes_the_question_back(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    asked(visitor)
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.get_by_role("form", name="Approval").wait_for(state="hidden")
    visitor.until_idle()


def test_what_a_background_child_asks_is_asked_in_its_conversation(
    gateway: GatewayProcess, visit: Visit
) -> None:
    """Also while that itself does nothing: it is neither busy nor to be stopped."""
    visitor = visit(gateway)
    visitor.ask("hello")
    visitor.say(f"/background {SUDO}")
    card = visitor.page.get_by_role("form", name="Approval")
    card.wait_for()
    assert visitor.page.locator(".stop").count() == 0
    card.get_by_role("button", name="Run once").click()
    card.wait_for(state="hidden")
    visitor.page.locator(".note summary").get_by_text("has ended.").wait_for()
