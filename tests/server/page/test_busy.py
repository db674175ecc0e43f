"""While a turn runs: what one more message does to it, and how to stop it."""

from tests.server.page.conftest import Visit
from tests.server.page.held_turn import Held
from tests.server.page.visitor import Visitor
from tests.support.gateway_process import GatewayProcess

# A minute of words: whoever says it ends it.
ENDLESS = f"[delay 0.2] [text {'word by word ' * 100} and the last of it]"


def choose(visitor: Visitor, mode: str) -> None:
    visitor.page.get_by_role("button", name="What sending does").click()
    visitor.page.get_by_role("menuitemradio", name=mode).click()


def test_a_queued_message_waits_its_turn_and_is_answered_after(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    held = Held(gateway, "queued")
    visitor.say(held.asks(last="echo rowed", answer="the first answer"))
    visitor.page.locator(".step.running").wait_for()
    choose(visitor, "Queue")
    visitor.say("[text the second answer]")
    visitor.waiting.get_by_text("Waiting for the running turn").wait_for()
    held.let_go()
    visitor.replies.get_by_text("the second answer", exact=True).wait_for()
    visitor.until_idle()
    answers = visitor.replies.locator(".prose").all_inner_texts()
    assert answers == ["the first answer", "the second answer"]


def test_what_is_queued_by_command_is_shown_and_answered_once(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    held = Held(gateway, "commanded")
    visitor.say(held.asks(last="echo rowed", answer="the first answer"))
    visitor.page.locator(".step.running").wait_for()
    visitor.say("/queue [text the second answer]")
    visitor.waiting.get_by_text("the second answer").wait_for()
    held.let_go()
    visitor.said.get_by_text("[text the second answer]", exact=True).wait_for()
    visitor.replies.get_by_text("the second answer", exact=True).wait_for()
    visitor.until_idle()
    answers = visitor.replies.locator(".prose").all_inner_texts()
    assert answers[1:] == ["the second answer"]
    assert visitor.page.get_by_text("/queue").count() == 0


def test_what_waits_is_there_again_after_a_reload(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.say(ENDLESS)
    visitor.page.locator(".reply.live .prose").wait_for()
    choose(visitor, "Queue")
    visitor.say("still to come")
    visitor.waiting.get_by_text("Waiting for the running turn").wait_for()
    visitor.page.reload()
    visitor.waiting.get_by_text("still to come").wait_for()
    assert visitor.waiting.count() == 1
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".stop").wait_for(state="hidden")


def test_an_interrupt_ends_the_turn_and_answers_the_new_message(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.say(ENDLESS)
    visitor.page.locator(".reply.live .prose").wait_for()
    choose(visitor, "Interrupt")
    visitor.say("[text something else instead]")
    visitor.replies.get_by_text("something else instead").wait_for()
    visitor.until_idle()
    assert visitor.replies.get_by_text("the last of it").count() == 0


def test_a_steer_is_taken_between_two_steps(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    held = Held(gateway, "steered")
    visitor.say(held.asks(last="echo rowed", answer="as you were"))
    visitor.page.locator(".step.running").wait_for()
    choose(visitor, "Steer")
    with visitor.page.expect_response(lambda got: got.request.method == "POST"):
        visitor.say("[text turning to port]")
    held.let_go()
    visitor.replies.get_by_text("turning to port", exact=True).wait_for()
    visitor.until_idle()
    assert visitor.page.locator(".step .outcome.good").count() == 1
    # The choice is remembered for the next time.
    assert visitor.page.evaluate("localStorage.getItem('holdfast.mode')") == '"steer"'


def test_stop_ends_the_turn_and_says_so(gateway: GatewayProcess, visit: Visit) -> None:
    visitor = visit(gateway)
    visitor.say(ENDLESS)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.page.get_by_role("button", name="Stop").click()
    visitor.page.locator(".turn-end").get_by_text("Stopped.").wait_for()
    visitor.page.locator(".reply.live").wait_for(state="hidden")
    assert visitor.page.get_by_role("button", name="Send").is_disabled()


def test_escape_stops_what_runs_when_there_is_nothing_to_close(
    gateway: GatewayProcess, visit: Visit
) -> None:
    visitor = visit(gateway)
    visitor.say(ENDLESS)
    visitor.page.locator(".reply.live .prose").wait_for()
    visitor.page.get_by_role("button", name="Files").first.click()
    visitor.page.locator(".panel").wait_for()
    visitor.page.keyboard.press("Escape")
    visitor.page.locator(".panel").wait_for(state="detached")
    assert visitor.page.locator(".stop").is_visible()
    visitor.page.keyboard.press("Escape")
    visitor.page.locator(".turn-end").get_by_text("Stopped.").wait_for()
