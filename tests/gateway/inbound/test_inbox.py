"""The inbox: accepted messages are saved, counted once, and have one visible end (G1 to G4)."""

import asyncio
import threading
from functools import partial

import msgspec
import pytest
from tests.support.gateway_harness import Call, GatewayHarness, Until
from tests.support.replies import session_of
from tests.support.stops import wait_for_open_turns
from tests.support.stores import open_store

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import IntakeClosed, InvalidTransition, NotAllowed
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage, UserMessage
from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.tool import ReplayClass
from holdfast.testing.simulated.events import Faults


async def test_a_message_sent_while_down_is_answered_after_start(harness: GatewayHarness) -> None:
    """G1: what arrives while the gateway is down stays at the platform."""
    await harness.stop()
    harness.say("are you there?")
    harness.model.say("I am")
    await harness.start()
    assert await harness.texts(1) == ["I am"]


async def test_an_event_given_twice_is_accepted_once(harness: GatewayHarness) -> None:
    """G2: the same event again is the same message."""
    harness.service.set_faults(Faults(duplicates=3))
    harness.model.say("one", "two")
    harness.say("first")
    harness.say("second", chat="other")
    assert sorted(await harness.texts(2)) == ["one", "two"]
    assert await harness.ledger() == {"answered": 2}


async def test_a_repeated_event_returns_the_existing_row(harness: GatewayHarness) -> None:
    """G2: a repeated request gets the reply of the first one."""
    harness.model.say("hello")
    first = await harness.accept("hi", event_id="same")
    assert (await harness.end_of(first)).text == "hello"
    again = await harness.accept("hi", event_id="same")
    assert again.duplicate
    assert again.row.id == first.row.id
    assert (await harness.end_of(again)).text == "hello"


async def test_an_unknown_sender_is_refused(harness: GatewayHarness) -> None:
    """Law 12: default deny; G3: the sender gets a reply, and the message is refused."""
    harness.say("let me in", chat="mallory", user="mallory")
    harness.say("hi", user="ann")
    harness.model.say("hello ann")
    replies = {each.outgoing.chat_id: each.text for each in await harness.sent(2)}
    assert replies["home"] == "hello ann" and "You don't have access yet" in replies["mallory"]
    assert await harness.ledger() == {"answered": 1, "refused": 1}


async def test_closed_intake_takes_nothing(harness: GatewayHarness) -> None:
    """C1: closed intake accepts and acknowledges nothing more."""
    harness.gateway.intake.close()
    with pytest.raises(IntakeClosed):
        await harness.accept("hi")
    assert await harness.ledger() == {}


async def test_a_failed_turn_reports_the_reason_and_leaves_no_error_in_the_transcript(
    harness: GatewayHarness,
) -> None:
    """G3, law 16: `failed` is an end of its own, and the transcript has the question alone."""
    harness.model.say(
        ModelFailed("the key was refused: check model.api_key", fault=ModelFault.AUTH)
    )
    accepted = await harness.accept("hi")
    ended = await harness.end_of(accepted)
    assert ended.state is InboxState.FAILED
    assert "check model.api_key" in ended.text
    assert await harness.transcript(session_of(ended)) == [UserMessage(text="hi")]
    assert await harness.ledger() == {"failed": 1}


async def test_the_next_message_after_a_failure_is_answered(harness: GatewayHarness) -> None:
    """G3: a failed turn leaves a session that works."""
    harness.model.say(ModelFailed("overloaded", fault=ModelFault.SERVER), "fine now")
    harness.say("one")
    await harness.sent(1)
    harness.say("two")
    assert (await harness.texts(2))[1] == "fine now"


async def _wait_for_queued(harness: GatewayHarness, messages: int) -> None:
    """Wait until so many messages are queued behind the running one."""
    async with asyncio.timeout(30):
        while sum(len(lane.waiting_messages) for lane in harness.gateway.lanes) != messages:
            await asyncio.sleep(0.005)


def _with_busy_mode(harness: GatewayHarness, mode: BusyMode) -> None:
    gateway = GatewaySettings(busy_mode=mode)
    harness.settings = msgspec.structs.replace(harness.settings, gateway=gateway)


async def test_interrupt_ends_the_turn_and_answers_both_messages_in_one(
    harness: GatewayHarness,
) -> None:
    """G3, G4, H7: the interrupted message is merged into the one that interrupted it."""
    harness.say("paint it red")
    await harness.model.wait_for_request(1)
    harness.say("no, blue")
    request = await harness.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["paint it red", "no, blue"]
    harness.model.say("blue it is")
    assert (await harness.texts(1)) == ["blue it is"]
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def test_queued_messages_run_in_order_one_turn_each(harness: GatewayHarness) -> None:
    """G4, H5: `queue` waits behind the turn, and each message has a turn of its own."""
    await harness.stop()
    _with_busy_mode(harness, BusyMode.QUEUE)
    await harness.start()
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.say("two")
    harness.say("three")
    await _wait_for_queued(harness, 2)
    harness.model.say("first", "second", "third")
    assert await harness.texts(3) == ["first", "second", "third"]
    assert [m.text for m in harness.model.requests[1].messages] == ["one", "first", "two"]
    assert await harness.ledger() == {"answered": 3}


class HeldDisk:
    """A crash hook that holds commits, so that all writes in the meantime share one commit."""

    def __init__(self) -> None:
        self.go, self.held = threading.Event(), threading.Event()
        self.go.set()

    def __call__(self, point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT and not self.go.is_set():
            self.held.set()
            self.go.wait(30)


async def _accept_before_turn(harness: GatewayHarness, until: Until, *texts: str) -> list[Accepted]:
    """Accept all messages before the turn of the first one can begin."""
    await harness.stop()
    disk = HeldDisk()
    harness.open_store = partial(open_store, crash=disk)
    await harness.start()
    disk.go.clear()
    before = harness.store.write(SetMeta(key="key", value="value"))
    await until(disk.held.is_set)
    accepting = asyncio.gather(*(harness.accept(text) for text in texts))
    await until(lambda: harness.store.status.waiting == len(texts))
    disk.go.set()
    await before
    return list(await accepting)


async def test_quick_messages_before_a_turn_has_begun_are_one_turn(
    harness: GatewayHarness, until: Until
) -> None:
    """G4: messages of one route and one person merge; the last is answered."""
    harness.model.say("both")
    one, two = await _accept_before_turn(harness, until, "one", "two")
    assert (await harness.end_of(one)).text == "both"
    assert (await harness.end_of(two)).text == "both"
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def test_messages_that_want_their_own_answer_do_not_merge(harness: GatewayHarness) -> None:
    """G4: each request of the API is answered by itself, in order."""
    first = await harness.accept("one", mergeable=False, busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", mergeable=False, busy_mode=BusyMode.QUEUE)
    third = await harness.accept("three", mergeable=False, busy_mode=BusyMode.QUEUE)
    harness.model.say("1", "2", "3")
    ends = [await harness.end_of(accepted) for accepted in (first, second, third)]
    assert [end.text for end in ends] == ["1", "2", "3"]


async def test_messages_of_two_people_do_not_merge(harness: GatewayHarness) -> None:
    """G4: only messages of one route and one person merge."""
    harness.say("hi", user="ann")
    await harness.model.wait_for_request(1)
    harness.say("hello", user="bob")
    harness.model.say("one", "two")
    assert len(await harness.texts(2)) == 2


async def test_a_steer_joins_the_running_turn_between_two_steps(
    harness: GatewayHarness, call: Call
) -> None:
    """G4: `steer` is taken before the next model call, and ends merged into the turn."""
    await harness.stop()
    _with_busy_mode(harness, BusyMode.STEER)
    await harness.start()
    held_tool = harness.held_tools[ReplayClass.SAFE]
    held_tool.go.clear()
    harness.model.say([call("safe")], "done, in green")
    harness.say("paint it")
    await held_tool.wait_until_started(1)
    harness.say("in green")
    await _wait_for_queued(harness, 1)
    held_tool.go.set()
    assert await harness.texts(1) == ["done, in green"]
    messages = harness.model.requests[1].messages
    assert messages[-1] == UserMessage(text="in green")
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def test_a_steer_that_comes_too_late_runs_next(harness: GatewayHarness) -> None:
    """G4: a steer that no step was left to take is a message like any other."""
    await harness.stop()
    _with_busy_mode(harness, BusyMode.STEER)
    await harness.start()
    harness.say("one")
    await harness.model.wait_for_request(1)
    harness.say("two")
    await _wait_for_queued(harness, 1)
    harness.model.say("first", "second")
    assert await harness.texts(2) == ["first", "second"]
    assert await harness.ledger() == {"answered": 2}


async def test_a_queue_survives_a_stop_in_order(harness: GatewayHarness) -> None:
    """G4, H5: queued messages run after the next start, in order."""
    first = await harness.accept("one", mergeable=False, busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    second = await harness.accept("two", mergeable=False, busy_mode=BusyMode.QUEUE)
    third = await harness.accept("three", mergeable=False, busy_mode=BusyMode.QUEUE)
    await harness.stop()
    await harness.start()
    harness.model.say("1", "2", "3")
    ends = [await harness.end_of(accepted) for accepted in (first, second, third)]
    assert [end.text for end in ends] == ["1", "2", "3"]
    assert [r.messages[-1].text for r in harness.model.requests[-2:]] == ["two", "three"]


async def test_the_ledger_balances_while_turns_run(harness: GatewayHarness) -> None:
    """G3: accepted - ended = in flight + queued, at any time."""
    running = await harness.accept("one", busy_mode=BusyMode.QUEUE)
    await harness.model.wait_for_request(1)
    queued = await harness.accept("two", busy_mode=BusyMode.QUEUE)
    assert await harness.ledger() == {"running": 1, "queued": 1}
    assert harness.gateway.snapshot()["in_flight"] == 2
    harness.model.say("1", "2")
    await harness.end_of(running)
    await harness.end_of(queued)
    assert await harness.ledger() == {"answered": 2}
    assert harness.gateway.snapshot()["in_flight"] == 0


async def test_a_request_that_is_cancelled_while_it_waits_is_answered_all_the_same(
    harness: GatewayHarness, until: Until
) -> None:
    """K2: lanes are woken by the commit, never by the coroutine that requested it."""
    asking = asyncio.create_task(harness.accept("hi"))
    await asyncio.sleep(0)  # the write is queued; its commit is not
    asking.cancel()
    await asyncio.wait([asking])
    harness.model.say("hello")

    async def answered() -> bool:
        return bool(await harness.ledger() == {"answered": 1})

    await until(answered)


async def test_a_history_that_comes_with_the_request_is_the_conversation(
    harness: GatewayHarness,
) -> None:
    """A request without a session brings its own past and its own instructions."""
    past = (UserMessage(text="my name is Ann"), AssistantMessage(text="Hello Ann"))
    harness.model.say("Ann")
    accepted = await harness.accept("what is my name?", history=past, instructions="Be brief.")
    assert (await harness.end_of(accepted)).text == "Ann"
    request = harness.model.requests[0]
    assert request.messages == (*past, UserMessage(text="what is my name?"))
    assert request.system.endswith("Be brief.")


async def test_authorise_names_who_and_how(harness: GatewayHarness) -> None:
    source = Source(platform="simulated", chat_id="x", user_id="mallory")
    with pytest.raises(NotAllowed, match=r"mallory.*platforms\.simulated\.allow"):
        await harness.gateway.intake.accept(
            Inbound(source=source, event_id="1", message_id="1", text="hi")
        )


async def test_messages_merged_into_one_turn_stay_merged_after_a_restart(
    harness: GatewayHarness, until: Until
) -> None:
    """G3, H3: an interrupted turn of two messages ends both, and both get the reply."""
    one, two = await _accept_before_turn(harness, until, "one", "two")
    await harness.model.wait_for_request(1)
    await wait_for_open_turns(harness)
    await harness.die()
    await harness.start()
    harness.model.say("both")
    assert (await harness.end_of(one)).text == "both"
    assert (await harness.end_of(two)).text == "both"
    assert await harness.ledger() == {"answered": 1, "merged": 1}


async def test_the_intake_is_not_opened_again_by_a_start_that_the_stop_has_overtaken(
    harness: GatewayHarness,
) -> None:
    """C1: a stop is never taken back."""
    intake = harness.gateway.intake
    intake.close()
    intake.close()  # a second time changes nothing
    with pytest.raises(InvalidTransition):
        intake.open()
    intake.close_to_subagents()
    intake.close()
    with pytest.raises(InvalidTransition):
        intake.open()
    with pytest.raises(IntakeClosed):
        await harness.accept("hello")
