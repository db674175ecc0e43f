"""Chapters H and F, in the last instants of a process: an end that the disk had refused, and a
question that was asked as the gateway went."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.conftest import Call, Until
from tests.contract.stops import begun, come_back, leave, notes, only, windows
from tests.contract.test_j_approvals import DD, RM, Asking

from holdfast.core.errors import StoreError
from holdfast.core.messages.inbox import InboxState
from holdfast.core.turns.stop import StopKind, TurnExitReason
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.store.sqlite.store import SqliteStore


def nothing() -> None:
    """What happens in an instant in which nothing does."""


class Watched(SqliteStore):
    """A store that is full for the ends of turns, and that tells when a turn looks for standing
    rules or asks a person."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.full = False
        self.refused = 0
        self.looks: Callable[[], Any] = nothing
        self.asks: Callable[[], Any] = nothing

    def end_turn(self, *arguments: Any, **more: Any) -> Any:
        if not self.full:
            return super().end_turn(*arguments, **more)
        self.refused += 1
        refused = asyncio.get_running_loop().create_future()
        refused.set_exception(StoreError("the disk is full"))
        return refused

    async def approval_rules(self, *arguments: Any, **more: Any) -> Any:
        self.looks()
        return await super().approval_rules(*arguments, **more)

    def ask_approvals(self, *arguments: Any, **more: Any) -> Any:
        asked = super().ask_approvals(*arguments, **more)
        self.asks()
        return asked


class Leaving(Asking):
    """A world with people to ask, on such a store."""

    store: Watched

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = Watched
        windows(self)

    def mark(self) -> None:
        """What the phase of that name does, in the instant in which this is called."""
        self.store.looks = self.store.asks = nothing
        self.gateway.lanes.leave(TurnExitReason.SHUTDOWN_TIMEOUT)

    async def goes_while_its_end_waits(self, until: Until) -> None:
        """A stop, once the disk has refused an end; there is room again by then."""
        await until(lambda: self.store.refused > 0)
        self.store.full = False
        went = await leave(self, StopKind.STOP)
        assert (went.parked, went.interrupted) == (0, 0)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Leaving]:
    world = Leaving(tmp_path / "state.db")
    await world.start()
    yield world
    await world.stop()


async def test_an_answer_that_the_disk_refused_is_written_by_the_stop(
    world: Leaving, until: Until
) -> None:
    """H4, H1, F7: the next start sends it; the model is not asked again, and nothing was cut."""
    said = await world.accept("hi")
    await world.model.wait_for_request(1)
    await begun(world)
    world.store.full = True
    world.model.say("hello")
    await world.goes_while_its_end_waits(until)
    await come_back(world)
    assert (await world.end_of(said)).text == "hello"
    assert len(world.model.requests) == 1
    assert (await only(world)).interruptions == 0


async def test_a_turn_that_its_user_stopped_on_a_full_disk_is_not_resumed(
    world: Leaving, until: Until
) -> None:
    """H3, F9: the gateway goes while that end waits for the disk, and takes it along."""
    said = await world.accept("work")
    await world.model.wait_for_request(1)
    await begun(world)
    world.store.full = True
    stop = await world.accept("/stop")
    await world.goes_while_its_end_waits(until)
    await come_back(world)
    assert (await world.end_of(said)).state is InboxState.SUPERSEDED
    assert (await world.end_of(stop)).text == "Stopped."
    assert len(world.model.requests) == 1


async def test_a_turn_that_waits_and_was_stopped_on_a_full_disk_is_not_resumed(
    world: Leaving, call: Call, until: Until
) -> None:
    """H3, F9, J3: nobody runs it, and its end is written all the same."""
    world.model.say([call("shell", RM)])
    said = await world.accept("clean up")
    await world.asked()
    world.store.full = True
    await world.accept("/stop")
    await world.goes_while_its_end_waits(until)
    await come_back(world)
    assert (await world.end_of(said)).state is InboxState.SUPERSEDED
    assert await world.store.approvals(limit=5, pending=True) == []


async def test_a_turn_that_asks_in_the_instant_of_its_mark_was_not_cut(
    world: Leaving, call: Call
) -> None:
    """C2, F5, F7: the log has its question before the mark, so it stands at a boundary."""
    world.store.asks = world.mark
    world.model.say([call("shell", RM)])
    world.say("clean up")
    await world.asked()
    went = await leave(world, StopKind.STOP)
    assert (went.parked, went.interrupted) == (1, 0)
    await come_back(world)
    found = await only(world)
    assert (found.interruptions, found.resume_pending) == (0, False)
    world.say("/approve")
    request = await world.model.wait_for_request(2)
    assert notes(request.messages) == []


async def test_a_turn_that_was_marked_asks_nobody_any_more(
    world: Leaving, call: Call, until: Until
) -> None:
    """F5, F6, F7: it was cut, is counted and told so; its successor asks."""
    world.store.looks = world.mark
    world.model.say([call("shell", RM)])
    world.say("clean up")
    await until(lambda: world.gateway.lanes.count(LaneState.PARKED) == 1)
    assert await world.store.approvals(limit=5) == []
    went = await leave(world, StopKind.STOP)
    assert (went.parked, went.interrupted) == (0, 1)
    await come_back(world)
    await world.asked()
    assert (await only(world)).interruptions == 1
    world.say("/approve")
    request = await world.model.wait_for_request(2)
    assert notes(request.messages) == [interruption_note("shutdown_timeout").text]


@pytest.mark.parametrize("kind", [None, StopKind.STOP], ids=["crash", "stop"])
async def test_a_turn_cut_in_one_call_was_cut_although_it_has_asked_about_the_next(
    world: Leaving, call: Call, kind: StopKind | None
) -> None:
    """F6, F7, H3: it ran what had been allowed; counted and told once, and the question stands."""
    world.shell.go.clear()
    world.model.say([call("shell", RM), call("shell", DD)])
    world.say("clean up")
    first, _ = await world.asked(number=2)
    world.say(f"/approve {first.number}")
    await world.shell.was_pulled(1)
    world.shell.known[world.shell.pulled[0]] = "removed"
    if kind is None:
        await world.die()
    else:
        await leave(world, kind)
    await come_back(world)
    [second] = await world.asked()
    assert (second.number, (await only(world)).interruptions) == (2, 1)
    world.shell.go.set()
    world.say("/approve 2")
    request = await world.model.wait_for_request(2)
    assert notes(request.messages) == [
        interruption_note("crash" if kind is None else "shutdown_timeout").text
    ]
