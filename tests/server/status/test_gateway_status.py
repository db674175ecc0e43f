"""The gateway status: its state follows from phases and stop orders, and it answers quickly."""

import asyncio
from typing import Any, cast

import pytest
from tests.support.settable_clock import SettableClock

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.ops.status import Failures
from holdfast.core.ports.command import Query
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import (
    CountInbox,
    GetFailures,
    ListLastStops,
    ListOpenMessages,
)
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.status.gateway_status import GatewayStatus


class FakeStoreReader:
    """A store reader that a test blocks (`unblocked`) or closes."""

    def __init__(self) -> None:
        self.answered = 1
        self.unblocked = asyncio.Event()
        self.unblocked.set()
        self.closed = False
        self.open: dict[InboxId, float] = {}
        self.failures = Failures(deliveries=1)

    async def read(self, query: Query[Any]) -> Any:
        match query:
            case CountInbox():
                await self.unblocked.wait()
                if self.closed:
                    raise StoreError("it is closed")
                return {InboxState.ANSWERED: self.answered}
            case ListLastStops():
                return []
            case GetFailures():
                return self.failures
            case ListOpenMessages(before=before):
                return self.open_messages(before)
        raise AssertionError(f"the status does not read {query}")

    def open_messages(self, before: float) -> dict[InboxId, float]:
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
    clock, order = SettableClock(100.0), list[StopOrder]()
    status = GatewayStatus(clock=clock, stop_order=lambda: order[0] if order else None)
    status.enter_phase("opening the store")
    assert (status.snapshot().state, status.snapshot().phase) == ("starting", "opening the store")
    clock.at = 101
    status.enter_phase("running")
    assert status.running and (status.snapshot().phase, status.snapshot().since) == ("", 101)
    order.append(StopOrder(kind=kind, by=StopRequester.CLI, at=102))
    clock.at = 102
    status.enter_phase("drain")
    clock.at = 103
    status.enter_phase("mark")
    now = status.snapshot()
    assert (now.state, now.since, now.phase, now.phase_since) == (state, 102, "mark", 103)
    assert now.order == order[0] and not status.running


async def test_the_last_counts_stay_while_the_store_fails() -> None:
    store = FakeStoreReader()
    status = GatewayStatus(clock=SettableClock(100.0), stop_order=lambda: None)
    assert (await status.fresh_snapshot()).inbox_counts == {}
    status.use_store(cast(StoreReader, store))
    assert (await status.fresh_snapshot()).inbox_counts["answered"] == 1
    assert (await status.fresh_snapshot()).failures == Failures(deliveries=1)
    store.closed = True
    assert (await status.fresh_snapshot()).inbox_counts["answered"] == 1


async def test_a_quick_snapshot_does_not_wait_for_a_busy_store() -> None:
    """Status does not wait for the disk."""
    store = FakeStoreReader()
    status = GatewayStatus(clock=SettableClock(100.0), stop_order=lambda: None)
    status.use_store(cast(StoreReader, store))
    status.add_sources(lambda: {"outbox": 7})
    await status.fresh_snapshot()
    store.unblocked.clear()
    store.answered = 2
    async with asyncio.timeout(10):
        late = await status.quick_snapshot()
    assert (late.outbox, late.inbox_counts["answered"]) == (7, 1)
    store.unblocked.set()
    assert (await status.fresh_snapshot()).inbox_counts["answered"] == 2


async def test_a_message_open_for_a_minute_without_a_turn_is_reported() -> None:
    store, clock = FakeStoreReader(), SettableClock(100.0)
    status = GatewayStatus(clock=clock, stop_order=lambda: None)
    status.use_store(cast(StoreReader, store))
    status.track_owned(lambda: {InboxId(1)})
    store.open = {InboxId(1): 10.0, InboxId(2): 20.0, InboxId(3): 99.0}
    starting = await status.fresh_snapshot()
    assert (starting.orphaned, starting.orphaned_since) == (0, None), "a start takes them up yet"
    status.enter_phase("running")
    running = await status.fresh_snapshot()
    assert (running.orphaned, running.orphaned_since) == (1, 20.0)
    del store.open[InboxId(2)]
    mended = await status.fresh_snapshot()
    assert (mended.orphaned, mended.orphaned_since) == (0, None)


async def test_a_message_that_ends_during_the_query_is_not_reported() -> None:
    owned = {InboxId(1)}

    class Late(FakeStoreReader):
        def open_messages(self, before: float) -> dict[InboxId, float]:
            owned.clear()  # its end was committed after the open messages were read
            return {InboxId(1): 10.0}

    status = GatewayStatus(clock=SettableClock(100.0), stop_order=lambda: None)
    status.use_store(cast(StoreReader, Late()))
    status.track_owned(lambda: frozenset(owned))
    status.enter_phase("running")
    assert (await status.fresh_snapshot()).orphaned == 0
