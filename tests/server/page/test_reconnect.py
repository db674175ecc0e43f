"""The page when its gateway is killed or refuses: nothing is shown twice, and nothing is lost."""

import re
import signal
from typing import Any

from tests.server.page.held_turn import HeldTurn
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway

WORDS = " ".join(f"word{n}" for n in range(1, 31))
OUTBOX_IS_EMPTY = "Object.keys(localStorage).every(key => !key.includes('outbox'))"


def test_a_reply_interrupted_by_a_kill_is_resumed_and_shown_once(
    restartable_gateway: SpawnedGateway, visit: Visit
) -> None:
    """H3, I2: a half streamed reply is shown once when the next gateway has finished it."""
    visitor = visit(restartable_gateway)
    question = f"[delay 0.1] [text {WORDS}]"
    visitor.send(question)
    visitor.page.locator(".reply.live").get_by_text("word3").wait_for()
    restartable_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… What you write").wait_for()
    restartable_gateway.start()
    visitor.page.get_by_text("Reconnecting… What you write").wait_for(state="hidden")
    visitor.replies.first.wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == [question]
    assert visitor.reply_texts() == [WORDS]
    shown = visitor.page.locator(".column").inner_text()
    visitor.page.reload()
    visitor.replies.first.wait_for()
    assert visitor.page.locator(".column").inner_text() == shown


def test_a_command_that_runs_through_a_kill_is_shown_once_with_its_result(
    restartable_gateway: SpawnedGateway, visit: Visit
) -> None:
    """H2: a step that was running when the gateway was killed shows its real result."""
    visitor = visit(restartable_gateway)
    held = HeldTurn(restartable_gateway, "ended")
    visitor.send(held.prompt(last="echo once | tee -a log; wc -l < log", answer="it is done"))
    visitor.page.locator(".step.running").wait_for()
    held.wait_until_held()
    restartable_gateway.end(signal.SIGKILL)
    restartable_gateway.start()
    held.release()
    visitor.page.get_by_text("it is done", exact=True).last.wait_for()
    visitor.until_idle()
    step = visitor.page.locator(".step")
    assert step.count() == 1
    step.locator("summary").click()
    step.locator(".output code").wait_for()
    assert step.locator(".output code").inner_text().split()[:2] == ["once", "1"]
    assert visitor.reply_texts() == ["it is done"]


def test_messages_written_while_the_gateway_is_down_are_sent_when_it_is_back(
    restartable_gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(restartable_gateway)
    visitor.send_and_wait("first")
    restartable_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… What you write").wait_for()
    visitor.send("second")
    visitor.send("third")
    assert visitor.waiting_texts() == ["second", "third"]
    restartable_gateway.start()
    visitor.user_messages.nth(2).wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == ["first", "second", "third"]
    assert visitor.waiting_messages.count() == 0
    visitor.page.wait_for_function(OUTBOX_IS_EMPTY)


def test_a_new_chat_started_while_the_gateway_is_down_is_created_once(
    restartable_gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(restartable_gateway)
    restartable_gateway.end(signal.SIGKILL)
    visitor.page.get_by_text("Reconnecting… What you write").wait_for()
    visitor.send("from the dark")
    visitor.waiting_messages.wait_for()
    restartable_gateway.start()
    visitor.replies.first.wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == ["from the dark"]
    visitor.page.locator(".chat-link").first.wait_for()
    assert visitor.page.locator(".chat-link").count() == 1


def test_a_message_whose_receipt_was_lost_is_shown_once(
    restartable_gateway: SpawnedGateway, visit: Visit
) -> None:
    """The gateway has it, the page does not know: it is sent again with the same message_id."""
    visitor = visit(restartable_gateway)
    visitor.send_and_wait("first")
    lost = []

    def lose(route: Any) -> None:
        lost.append(route.fetch().status)
        route.abort()

    visitor.page.route("**/messages", lose, times=1)
    visitor.send("only once")
    visitor.user_messages.nth(1).wait_for()
    visitor.until_idle()
    visitor.page.reload()
    visitor.user_messages.nth(1).wait_for()
    visitor.until_idle()
    assert lost == [202]
    assert visitor.user_texts() == ["first", "only once"]
    visitor.page.wait_for_function(OUTBOX_IS_EMPTY)


def test_a_message_refused_by_a_full_disk_shows_the_reason_and_is_sent_later(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """K2: on a full disk the page shows the error and keeps the message."""
    visitor = visit(gateway)
    visitor.send_and_wait("first")
    full = {
        "error": {"message": "The store failed: the disk is full.", "code": "store_unavailable"}
    }
    visitor.page.route("**/messages", lambda route: route.fulfill(status=503, json=full))
    visitor.send("when there is room")
    visitor.page.get_by_text("Not accepted yet: The store failed: the disk is full.").wait_for()
    visitor.page.unroute("**/messages")
    visitor.user_messages.nth(1).wait_for()
    visitor.until_idle()
    assert visitor.user_texts() == ["first", "when there is room"]


def test_a_stream_that_repeats_itself_is_shown_once(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send_and_wait("[text the one answer]")
    from_the_start = re.compile(r"after=\d+")
    visitor.page.route(
        "**/events?after=*",
        lambda route: route.continue_(url=from_the_start.sub("after=0", route.request.url)),
    )
    visitor.page.reload()
    visitor.replies.first.wait_for()
    visitor.send_and_wait("[text another]")
    assert visitor.user_texts() == ["[text the one answer]", "[text another]"]
    assert visitor.reply_texts() == ["the one answer", "another"]
