"""The page when its gateway dies under it: nothing is shown twice, and nothing is lost."""

import re
import signal
from typing import Any

from tests.server.page.conftest import Visit
from tests.server.page.held_turn import Held
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

WORDS = " ".join(f"word{n}" for n in range(1, 31))
NOTHING_KEPT = "Object.keys(localStorage).every(key => !key.includes('outbox'))"


def texts(visitor: Visitor, locator: Any) -> list[str]:
    return [text.strip() for text in locator.all_inner_texts()]


def said(visitor: Visitor) -> list[str]:
    return texts(visitor, visitor.said.locator(".words"))


def answered(visitor: Visitor) -> list[str]:
    return texts(visitor, visitor.replies.locator(".prose"))


def test_a_gateway_killed_while_it_streams_goes_on_where_it_was(
    lone_gateway: GatewayProcess, visit: Visit
) -> None:
    """H3, I2: a reply that was half on the page is there once when the next gateway is done."""
    visitor = visit(lone_gateway)
    question = f"[delay 0.1] [text {WORDS}]"
    visitor.say(question)
    visitor.page.locator(".reply.live").get_by_text("word3").wait_for()
    lone_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… what you write").wait_for()
    lone_gateway.start()
    visitor.page.get_by_text("Reconnecting… what you write").wait_for(state="hidden")
    visitor.replies.first.wait_for()
    visitor.until_idle()
    assert said(visitor) == [question]
    assert answered(visitor) == [WORDS]
    shown = visitor.page.locator(".column").inner_text()
    visitor.page.reload()
    visitor.replies.first.wait_for()
    assert visitor.page.locator(".column").inner_text() == shown


def test_a_command_that_runs_through_a_kill_is_shown_once_with_its_result(
    lone_gateway: GatewayProcess, visit: Visit
) -> None:
    """H2: the step that was running when the gateway died ends on the page as it ended."""
    visitor = visit(lone_gateway)
    held = Held(lone_gateway, "ended")
    visitor.say(held.asks(last="echo once | tee -a log; wc -l < log", answer="it is done"))
    visitor.page.locator(".step.running").wait_for()
    held.until_it_waits()
    lone_gateway.end(signal.SIGKILL)
    lone_gateway.start()
    held.let_go()
    visitor.page.get_by_text("it is done", exact=True).last.wait_for()
    visitor.until_idle()
    step = visitor.page.locator(".step")
    assert step.count() == 1
    step.locator("summary").click()
    step.locator(".output code").wait_for()
    assert step.locator(".output code").inner_text().split()[:2] == ["once", "1"]
    assert answered(visitor) == ["it is done"]


def test_what_is_written_while_the_gateway_is_away_is_sent_when_it_is_back(
    lone_gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(lone_gateway)
    visitor.ask("first")
    lone_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… what you write").wait_for()
    visitor.say("second")
    visitor.say("third")
    assert texts(visitor, visitor.waiting.locator(".words")) == ["second", "third"]
    lone_gateway.start()
    visitor.said.nth(2).wait_for()
    visitor.until_idle()
    assert said(visitor) == ["first", "second", "third"]
    assert visitor.waiting.count() == 0
    visitor.page.wait_for_function(NOTHING_KEPT)


def test_a_new_chat_begun_while_the_gateway_is_away_begins_once(
    lone_gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(lone_gateway)
    lone_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… what you write").wait_for()
    visitor.say("from the dark")
    visitor.waiting.wait_for()
    lone_gateway.start()
    visitor.replies.first.wait_for()
    visitor.until_idle()
    assert said(visitor) == ["from the dark"]
    visitor.page.locator(".chat-link").first.wait_for()
    assert visitor.page.locator(".chat-link").count() == 1


def test_a_message_whose_receipt_was_lost_is_not_said_twice(
    lone_gateway: GatewayProcess, visit: Visit
) -> None:
    """The gateway has it, the page does not know: it is sent again with the same message_id."""
    visitor = visit(lone_gateway)
    visitor.ask("first")
    lost = []

    def lose(route: Any) -> None:
        lost.append(route.fetch().status)
        route.abort()

    visitor.page.route("**/messages", lose, times=1)
    visitor.say("only once")
    visitor.said.nth(1).wait_for()
    visitor.until_idle()
    visitor.page.reload()
    visitor.said.nth(1).wait_for()
    visitor.until_idle()
    assert lost == [202]
    assert said(visitor) == ["first", "only once"]
    visitor.page.wait_for_function(NOTHING_KEPT)


def test_a_gateway_whose_store_takes_nothing_says_why_and_has_it_when_it_can(
    gateway: GatewayProcess, visit: Visit
) -> None:
    """K2: on a full disk the page does not pretend that all is well, and keeps what was written."""
    visitor = visit(gateway)
    visitor.ask("first")
    full = {"error": {"message": "the store failed: the disk is full", "code": "store_unavailable"}}
    visitor.page.route("**/messages", lambda route: route.fulfill(status=503, json=full))
    visitor.say("when there is room")
    visitor.page.get_by_text("Not taken yet, the store failed: the disk is full.").wait_for()
    visitor.page.unroute("**/messages")
    visitor.said.nth(1).wait_for()
    visitor.until_idle()
    assert said(visitor) == ["first", "when there is room"]


def test_a_stream_that_repeats_itself_is_shown_once(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.ask("[text the one answer]")
    from_the_start = re.compile(r"after=\d+")
    visitor.page.route(
        "**/events?after=*",
        lambda route: route.continue_(url=from_the_start.sub("after=0", route.request.url)),
    )
    visitor.page.reload()
    visitor.replies.first.wait_for()
    visitor.ask("[text another]")
    assert said(visitor) == ["[text the one answer]", "[text another]"]
    assert answered(visitor) == ["the one answer", "another"]
