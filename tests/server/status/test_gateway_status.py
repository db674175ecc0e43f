"""The facts of a process: its state follows from phases and orders, and nobody waits long."""

import asyncio
from typing import Any, cast

import pytest

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.ports.store import StoreReader
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.status.gateway_status import GatewayStatus


class Clock:
    at = 100.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Shelf:
    """A library of two facts; `busy` until it is set free, `closed` for good."""

    def __init__(self) -> None:
        self.answered = 1
        self.free = asyncio.Event()
        self.free.set()
        self.closed = False
        self.open: dict[InboxId, float] = {}

    async def inbox_counts(self) -> dict[InboxState, int]:
        await self.free.wait()
        if self.closed:
            raise StoreError("it is closed")
        return {InboxState.ANSWERED: self.answered}

    async def last_stops(self, *, limit: int) -> list[Any]:
        return []

    async def open_messages(self, *, before: float) -> dict[InboxId, float]:
        return {id: at for id, at in self.open.items() if at < before}


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        (StopKind.STOP, "stopping"),
        (StopKind.SIGNAL, "stopping"),
        (StopKind.RESTART, "restarting"),
        (StopKind.REPLACE, "restarting"),
    ],
)
def test_the_state_follows_from_the_phase_and_the_order(kind: StopKind, state: str) -> None:
    clock, order = Clock(), list[StopOrder]()
    facts = GatewayStatus(clock=clock, stop_order=lambda: order[0] if order else None)
    facts.enter_phase("opening the store")
    assert (facts.snapshot().state, facts.snapshot().phase) == ("starting", "opening the store")
    clock.at = 101
    facts.enter_phase("running")
    assert facts.running and (facts.snapshot().phase, facts.snapshot().since) == ("", 101)
    order.append(StopOrder(kind=kind, by=StopRequester.CLI, at=102))
    clock.at = 102
    facts.enter_phase("drain")
    clock.at = 103
    facts.enter_phase("mark")
    now = facts.snapshot()
    assert (now.state, now.since, now.phase, now.phase_since) == (state, 102, "mark", 103)
    assert now.order == order[0] and not facts.running


async def test_what_the_store_said_stands_while_it_cannot_say_more() -> None:
    shelf = Shelf()
    facts = GatewayStatus(clock=Clock(), stop_order=lambda: None)
    assert (await facts.fresh_snapshot()).inbox_counts == {}
    facts.use_store(cast(StoreReader, shelf))
    assert (await facts.fresh_snapshot()).inbox_counts["answered"] == 1
    shelf.closed = True
    assert (await facts.fresh_snapshot()).inbox_counts["answered"] == 1


async def test_who_cannot_wait_gets_the_rest_while_the_store_is_busy() -> None:
    """Law 14: status does not wait for the disk."""
    shelf = Shelf()
    facts = GatewayStatus(clock=Clock(), stop_order=lambda: None)
    facts.use_store(cast(StoreReader, shelf))
    facts.add_sources(lambda: {"outbox": 7})
    await facts.fresh_snapshot()
    shelf.free.clear()
    shelf.answered = 2
    async with asyncio.timeout(10):
        late = await facts.quick_snapshot()
    assert (late.outbox, late.inbox_counts["answered"]) == (7, 1)
    shelf.free.set()
    assert (await facts.fresh_snapshot()).inbox_counts["answered"] == 2


async def test_what_is_open_and_not_worked_on_for_a_minute_is_told_while_it_runs() -> None:
    shelf, clock = Shelf(), Clock()
    facts = GatewayStatus(clock=clock, stop_order=lambda: None)
    facts.use_store(cast(StoreReader, shelf))
    facts.track_owned(lambda: {InboxId(1)})
    shelf.open = {InboxId(1): 10.0, InboxId(2): 20.0, InboxId(3): 99.0}
    starting = await facts.fresh_snapshot()
    assert (starting.orphaned, starting.orphaned_since) == (0, None), "a start takes them up yet"
    facts.enter_phase("running")
    running = await facts.fresh_snapshot()
    assert (running.orphaned, running.orphaned_since) == (1, 20.0)
    del shelf.open[InboxId(2)]
    mended = await facts.fresh_snapshot()
    assert (mended.orphaned, mended.orphaned_since) == (0, None)


async def test_a_message_that_ends_while_the_store_is_asked_is_not_taken_for_lost() -> None:
    owned = {InboxId(1)}

    class Late(Shelf):
        async def open_messages(self, *, before: float) -> dict[InboxId, float]:
            owned.clear()  # its end was committed and told after this answer was read
            return {InboxId(1): 10.0}

    facts = GatewayStatus(clock=Clock(), stop_order=lambda: None)
    facts.use_store(cast(StoreReader, Late()))
    facts.track_owned(lambda: frozenset(owned))
    facts.enter_phase("running")
    assert (await facts.fresh_snapshot()).orphaned == 0
