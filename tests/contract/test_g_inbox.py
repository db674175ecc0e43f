"""Chapter G: what is accepted is kept, counted once, and reaches one visible end."""

import asyncio
import threading
from functools import partial

import msgspec
import pytest
from tests.contract.conftest import Call, Until, World
from tests.contract.stops import begun

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import IntakeClosed, NotAllowed
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage, UserMessage
from holdfast.core.turns.model import ModelFailed, ModelFault
from holdfast.core.turns.tool import ReplayClass
from holdfast.store.sqlite.store import SqliteStore
from holdfast.testing.simulated.events import Faults


async def test_a_message_sent_while_down_is_answered_after_start(world: World) -> None:
    """G1: what arrives while the gateway is down stays at the platform."""
    await world.stop()
    world.say("are you there?")
    world.model.say("I am")
    await world.start()
    assert await world.texts(1) == ["I am"]


async def test_an_event_given_twice_is_accepted_once(world: World) -> None:
    """G2: the same event again is the same message."""
    world.service.set_faults(Faults(duplicates=3))
    world.model.say("one", "two")
    world.say("first")
    world.say("second", chat="other")
    assert sorted(await world.texts(2)) == ["one", "two"]
    assert await world.ledger() == {"answered": 2}


async def test_a_repeated_event_gets_the_row_there_was(world: World) -> None:
    """G2: whoever asks again attaches to the answer."""
    world.model.say("hello")
    first = await world.accept("hi", event_id="same")
    assert (await world.end_of(first)).text == "hello"
    again = await world.accept("hi", event_id="same")
    assert again.duplicate
    assert again.row.id == first.row.id
    assert (await world.end_of(again)).text == "hello"


async def test_a_stranger_is_not_let_in(world: World) -> None:
    """Law 12: nobody is allowed until somebody is; G3: they are told so, and it is refused."""
    world.say("let me in", chat="mallory", user="mallory")
    world.say("hi", user="ann")
    world.model.say("hello ann")
    told = {each.outgoing.chat_id: each.text for each in await world.sent(2)}
    assert told["home"] == "hello ann" and "I do not know you" in told["mallory"]
    assert await world.ledger() == {"answered": 1, "refused": 1}


async def test_closed_intake_takes_nothing(world: World) -> None:
    """C1: closed intake accepts and acknowledges nothing more."""
    world.gateway.intake.close()
    with pytest.raises(IntakeClosed):
        await world.accept("hi")
    assert await world.ledger() == {}


async def test_a_failed_turn_tells_why_and_leaves_no_error_in_the_log(world: World) -> None:
    """G3, law 16: `failed` is an end of its own, and the transcript has the question alone."""
    world.model.say(ModelFailed("the key was refused: check model.api_key", fault=ModelFault.AUTH))
    accepted = await world.accept("hi")
    ended = await world.end_of(accepted)
    assert ended.state is InboxState.FAILED
    assert "check model.api_key" in ended.text
    assert await world.transcript(ended.session_id) == [UserMessage(text="hi")]
    assert await world.ledger() == {"failed": 1}


async def test_the_next_message_after_a_failure_is_answered(world: World) -> None:
    """G3: a failed turn leaves a session that works."""
    world.model.say(ModelFailed("overloaded", fault=ModelFault.SERVER), "fine now")
    world.say("one")
    await world.sent(1)
    world.say("two")
    assert (await world.texts(2))[1] == "fine now"


async def _waits(world: World, messages: int) -> None:
    """Until so many are accepted beside the one that runs, and its lane knows of them."""
    async with asyncio.timeout(30):
        while sum(len(lane.waiting_messages) for lane in world.gateway.lanes) != messages:
            await asyncio.sleep(0.005)


def _with_busy_mode(world: World, mode: BusyMode) -> None:
    gateway = GatewaySettings(busy_mode=mode)
    world.settings = msgspec.structs.replace(world.settings, gateway=gateway)


async def test_interrupt_ends_the_turn_and_answers_both_messages_in_one(world: World) -> None:
    """G3, G4, H7: the message that was cut is merged into the one that cut it."""
    world.say("paint it red")
    await world.model.wait_for_request(1)
    world.say("no, blue")
    request = await world.model.wait_for_request(2)
    assert [m.text for m in request.messages] == ["paint it red", "no, blue"]
    world.model.say("blue it is")
    assert (await world.texts(1)) == ["blue it is"]
    assert await world.ledger() == {"answered": 1, "merged": 1}


async def test_queued_messages_run_in_order_one_turn_each(world: World) -> None:
    """G4, H5: `queue` waits behind the turn, and each message has a turn of its own."""
    await world.stop()
    _with_busy_mode(world, BusyMode.QUEUE)
    await world.start()
    world.say("one")
    await world.model.wait_for_request(1)
    world.say("two")
    world.say("three")
    await _waits(world, 2)
    world.model.say("first", "second", "third")
    assert await world.texts(3) == ["first", "second", "third"]
    assert [m.text for m in world.model.requests[1].messages] == ["one", "first", "two"]
    assert await world.ledger() == {"answered": 3}


class Disk:
    """What writes to it waits while it is held; whatever comes meanwhile is one commit then."""

    def __init__(self) -> None:
        self.go, self.held = threading.Event(), threading.Event()
        self.go.set()

    def __call__(self, point: CrashPoint) -> None:
        if point is CrashPoint.BEFORE_COMMIT and not self.go.is_set():
            self.held.set()
            self.go.wait(30)


async def _quickly(world: World, until: Until, *texts: str) -> list[Accepted]:
    """All of them are there before the turn of the first could begin."""
    await world.stop()
    disk = Disk()
    world.open_store = partial(SqliteStore, crash=disk)
    await world.start()
    disk.go.clear()
    before = world.store.set_meta("key", "value")
    await until(disk.held.is_set)
    accepting = asyncio.gather(*(world.accept(text) for text in texts))
    await until(lambda: world.store.status.waiting == len(texts))
    disk.go.set()
    await before
    return list(await accepting)


async def test_quick_messages_before_a_turn_has_begun_are_one_turn(
    world: World, until: Until
) -> None:
    """G4: messages of one route and one person merge; the last is answered."""
    world.model.say("both")
    one, two = await _quickly(world, until, "one", "two")
    assert (await world.end_of(one)).text == "both"
    assert (await world.end_of(two)).text == "both"
    assert await world.ledger() == {"answered": 1, "merged": 1}


async def test_messages_that_want_their_own_answer_do_not_merge(world: World) -> None:
    """G4: each request of the API is answered by itself, in order."""
    first = await world.accept("one", mergeable=False, busy_mode=BusyMode.QUEUE)
    await world.model.wait_for_request(1)
    second = await world.accept("two", mergeable=False, busy_mode=BusyMode.QUEUE)
    third = await world.accept("three", mergeable=False, busy_mode=BusyMode.QUEUE)
    world.model.say("1", "2", "3")
    ends = [await world.end_of(accepted) for accepted in (first, second, third)]
    assert [end.text for end in ends] == ["1", "2", "3"]


async def test_messages_of_two_people_do_not_merge(world: World) -> None:
    """G4: only messages of one route and one person merge."""
    world.say("hi", user="ann")
    await world.model.wait_for_request(1)
    world.say("hello", user="bob")
    world.model.say("one", "two")
    assert len(await world.texts(2)) == 2


async def test_a_steer_joins_the_running_turn_between_two_steps(world: World, call: Call) -> None:
    """G4: `steer` is taken before the next model call, and ends merged into the turn."""
    await world.stop()
    _with_busy_mode(world, BusyMode.STEER)
    await world.start()
    lever = world.levers[ReplayClass.SAFE]
    lever.go.clear()
    world.model.say([call("safe")], "done, in green")
    world.say("paint it")
    await lever.was_pulled(1)
    world.say("in green")
    await _waits(world, 1)
    lever.go.set()
    assert await world.texts(1) == ["done, in green"]
    said = world.model.requests[1].messages
    assert said[-1] == UserMessage(text="in green")
    assert await world.ledger() == {"answered": 1, "merged": 1}


async def test_a_steer_that_comes_too_late_runs_next(world: World) -> None:
    """G4: a steer that no step was left to take is a message like any other."""
    await world.stop()
    _with_busy_mode(world, BusyMode.STEER)
    await world.start()
    world.say("one")
    await world.model.wait_for_request(1)
    world.say("two")
    await _waits(world, 1)
    world.model.say("first", "second")
    assert await world.texts(2) == ["first", "second"]
    assert await world.ledger() == {"answered": 2}


async def test_a_queue_survives_a_stop_in_order(world: World) -> None:
    """G4, H5: what was queued behind a turn runs after the next start, in its order."""
    first = await world.accept("one", mergeable=False, busy_mode=BusyMode.QUEUE)
    await world.model.wait_for_request(1)
    second = await world.accept("two", mergeable=False, busy_mode=BusyMode.QUEUE)
    third = await world.accept("three", mergeable=False, busy_mode=BusyMode.QUEUE)
    await world.stop()
    await world.start()
    world.model.say("1", "2", "3")
    ends = [await world.end_of(accepted) for accepted in (first, second, third)]
    assert [end.text for end in ends] == ["1", "2", "3"]
    assert [r.messages[-1].text for r in world.model.requests[-2:]] == ["two", "three"]


async def test_the_ledger_balances_while_turns_run(world: World) -> None:
    """G3: accepted - ended = in flight + queued, at any time."""
    running = await world.accept("one", busy_mode=BusyMode.QUEUE)
    await world.model.wait_for_request(1)
    queued = await world.accept("two", busy_mode=BusyMode.QUEUE)
    assert await world.ledger() == {"running": 1, "queued": 1}
    assert world.gateway.snapshot()["in_flight"] == 2
    world.model.say("1", "2")
    await world.end_of(running)
    await world.end_of(queued)
    assert await world.ledger() == {"answered": 2}
    assert world.gateway.snapshot()["in_flight"] == 0


async def test_a_request_that_is_cancelled_while_it_waits_is_answered_all_the_same(
    world: World, until: Until
) -> None:
    """K2: lanes are woken by the commit, never by the coroutine that asked for it."""
    asking = asyncio.create_task(world.accept("hi"))
    await asyncio.sleep(0)  # the write is queued; its commit is not
    asking.cancel()
    await asyncio.wait([asking])
    world.model.say("hello")

    async def answered() -> bool:
        return bool(await world.ledger() == {"answered": 1})

    await until(answered)


async def test_a_history_that_comes_with_the_request_is_the_conversation(world: World) -> None:
    """A request without a session brings its own past and its own instructions."""
    past = (UserMessage(text="my name is Ann"), AssistantMessage(text="Hello Ann"))
    world.model.say("Ann")
    accepted = await world.accept("what is my name?", history=past, instructions="Be brief.")
    assert (await world.end_of(accepted)).text == "Ann"
    request = world.model.requests[0]
    assert request.messages == (*past, UserMessage(text="what is my name?"))
    assert request.system.endswith("Be brief.")


async def test_authorise_names_who_and_how(world: World) -> None:
    source = Source(platform="simulated", chat_id="x", user_id="mallory")
    with pytest.raises(NotAllowed, match=r"mallory.*platforms\.simulated\.allow"):
        await world.gateway.intake.accept(
            Inbound(source=source, event_id="1", message_id="1", text="hi")
        )


async def test_messages_that_were_one_turn_are_so_after_a_restart(
    world: World, until: Until
) -> None:
    """G3, H3: a turn of two messages that was cut ends both, and whoever asks for either hears."""
    one, two = await _quickly(world, until, "one", "two")
    await world.model.wait_for_request(1)
    await begun(world)
    await world.die()
    await world.start()
    world.model.say("both")
    assert (await world.end_of(one)).text == "both"
    assert (await world.end_of(two)).text == "both"
    assert await world.ledger() == {"answered": 1, "merged": 1}
