"""While a turn runs: what another message does to it, and how it is stopped."""

from tests.server.page.held_turn import HeldTurn
from tests.server.page.visitor import Visit
from tests.support.gateway_process import SpawnedGateway

# It streams for a minute: a test that sends it also stops it.
ENDLESS_REPLY = f"[delay 0.2] [text {'word by word ' * 100} and the last of it]"


def test_a_queued_message_waits_its_turn_and_is_answered_after(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    held = HeldTurn(gateway, "queued")
    visitor.send(held.prompt(last="echo rowed", answer="the first answer"))
    visitor.page.locator(".step.running").wait_for()
    visitor.choose_busy_mode("Queue")
    visitor.send("[text the second answer]")
    visitor.waiting_messages.get_by_text("Waiting for the running turn").wait_for()
    held.release()
    visitor.replies.get_by_text("the second answer", exact=True).wait_for()
    visitor.until_idle()
    answers = visitor.replies.locator(".prose").all_inner_texts()
    assert answers == ["the first answer", "the second answer"]


def test_a_message_queued_by_command_is_shown_and_answered_once(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    held = HeldTurn(gateway, "commanded")
    visitor.send(held.prompt(last="echo rowed", answer="the first answer"))
    visitor.page.locator(".step.running").wait_for()
    visitor.send("/queue [text the second answer]")
    visitor.waiting_messages.get_by_text("the second answer").wait_for()
    held.release()
    visitor.user_messages.get_by_text("[text the second answer]", exact=True).wait_for()
    visitor.replies.get_by_text("the second answer", exact=True).wait_for()
    visitor.until_idle()
    answers = visitor.replies.locator(".prose").all_inner_texts()
    assert answers[1:] == ["the second answer"]
    assert visitor.page.get_by_text("/queue").count() == 0


def test_a_waiting_message_is_shown_again_after_a_reload(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send(ENDLESS_REPLY)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.choose_busy_mode("Queue")
    visitor.send("still to come")
    visitor.waiting_messages.get_by_text("Waiting for the running turn").wait_for()
    visitor.page.reload()
    visitor.waiting_messages.get_by_text("still to come").wait_for()
    assert visitor.waiting_messages.count() == 1
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".stop").wait_for(state="hidden")


def test_an_interrupt_ends_the_turn_and_answers_the_new_message(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send(ENDLESS_REPLY)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.choose_busy_mode("Interrupt")
    visitor.send("[text something else instead]")
    visitor.replies.get_by_text("something else instead").wait_for()
    visitor.until_idle()
    assert visitor.replies.get_by_text("the last of it").count() == 0


def test_a_steer_is_taken_between_two_steps(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    held = HeldTurn(gateway, "steered")
    visitor.send(held.prompt(last="echo rowed", answer="as you were"))
    visitor.page.locator(".step.running").wait_for()
    visitor.choose_busy_mode("Steer")
    with visitor.page.expect_response(lambda got: got.request.method == "POST"):
        visitor.send("[text turning to port]")
    held.release()
    visitor.replies.get_by_text("turning to port", exact=True).wait_for()
    visitor.until_idle()
    assert visitor.page.locator(".step .outcome.good").count() == 1
    # The choice is remembered for the next time.
    assert visitor.page.evaluate("localStorage.getItem('holdfast.mode')") == '"steer"'


def test_stop_ends_the_turn_and_the_page_shows_it(gateway: SpawnedGateway, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.send(ENDLESS_REPLY)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".turn-end").get_by_text("Stopped.").wait_for()
    visitor.page.locator(".reply.live").wait_for(state="hidden")
    assert visitor.page.get_by_role("button", name="Send").is_disabled()


def test_stop_keeps_the_partial_reply_and_returns_queued_texts_to_the_composer(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    """F9: the partial reply stays also after a reload, marked as stopped."""
    visitor = visit(gateway)
    visitor.send(ENDLESS_REPLY)
    begun = visitor.page.locator(".reply.live .prose")
    begun.get_by_text("word").first.wait_for()
    visitor.choose_busy_mode("Queue")
    visitor.send("and then this")
    visitor.waiting_messages.get_by_text("Waiting for the running turn").wait_for()
    visitor.message_box.fill("my draft")
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".turn-end").get_by_text("Stopped.").wait_for()
    visitor.waiting_messages.wait_for(state="detached")
    assert visitor.message_box.input_value() == "my draft\n\nand then this"
    for _ in range(2):
        reply = visitor.replies.first
        reply.get_by_text("You stopped this answer here.").wait_for()
        assert "word" in reply.locator(".prose").inner_text()
        assert "the last of it" not in reply.inner_text()
        visitor.page.reload()
        visitor.replies.first.wait_for()


def test_escape_stops_what_runs_when_there_is_nothing_to_close(
    gateway: SpawnedGateway, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.send(ENDLESS_REPLY)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.page.get_by_role("button", name="Files").first.click()
    visitor.page.locator(".panel").wait_for()
    visitor.page.keyboard.press("Escape")
    visitor.page.locator(".panel").wait_for(state="detached")
    assert visitor.page.locator(".stop").is_visible()
    visitor.page.keyboard.press("Escape")
    visitor.page.locator(".turn-end").get_by_text("Stopped.").wait_for()
