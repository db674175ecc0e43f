"""The state of this process, and the status snapshot that its components fill."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, TypeVar

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.ops.status import FAILURES_SHOWN_FOR, GatewaySnapshot
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import (
    CountInbox,
    GetFailures,
    ListLastStops,
    ListOpenMessages,
)
from holdfast.core.turns.stop import StopOrder

RUNNING = "running"
STOPPED = "stopped"
_STOPS_SHOWN = 5
_QUICK_TIMEOUT = 0.025  # seconds; less than the status thread waits
_ORPHANED_AFTER = 60.0  # seconds; by then every accepted message has long reached a lane

StatusSource = Callable[[], Mapping[str, Any]]
T = TypeVar("T")


class GatewayStatus:
    """Owns the state and the phase of the process, and the last values read from the store.

    A source gives fields of a `GatewaySnapshot` from memory. All of this belongs to the event
    loop.
    """

    def __init__(self, *, clock: Clock, stop_order: Callable[[], StopOrder | None]) -> None:
        """`stop_order`: the order to stop, once there is one."""
        self._clock = clock
        self._stop_order = stop_order
        self._sources: list[StatusSource] = []
        self._reads: StoreReader | None = None
        self._owned: Callable[[], Container[InboxId]] | None = None
        self._from_store: dict[str, Any] = {}  # last read from the store
        self._state, self._since = "starting", clock.now()
        self._phase, self._phase_since = "", self._since

    @property
    def running(self) -> bool:
        return self._state == RUNNING

    def enter_phase(self, phase: str) -> None:
        """Record a phase of the start or of the stop, or that the process runs."""
        now = self._clock.now()
        self._phase, self._phase_since = phase, now
        state = self._state_in(phase)
        if state != self._state:
            self._state, self._since = state, now

    def add_sources(self, *sources: StatusSource) -> None:
        self._sources.extend(sources)

    def use_store(self, reads: StoreReader) -> None:
        """The store is open: include its counts from now on."""
        self._reads = reads

    def track_owned(self, owned: Callable[[], Container[InboxId]]) -> None:
        """`owned`: the messages that this process works on; other open ones are orphaned."""
        self._owned = owned

    def snapshot(self) -> GatewaySnapshot:
        """What is known in memory, without waiting."""
        fields: dict[str, Any] = dict(self._from_store)
        for source in self._sources:
            fields |= source()
        return GatewaySnapshot(
            state=self._state,
            since=self._since,
            phase="" if self._phase == self._state else self._phase,
            phase_since=self._phase_since,
            order=self._stop_order(),
            **fields,
        )

    async def fresh_snapshot(self) -> GatewaySnapshot:
        """The same with fresh values from the store; with the last ones if it cannot be read."""
        if self._reads is not None:
            since = self._clock.now() - FAILURES_SHOWN_FOR
            counts, stops, orphaned, failures = await asyncio.gather(
                _none_if_store_closed(self._reads.read(CountInbox())),
                _none_if_store_closed(self._reads.read(ListLastStops(limit=_STOPS_SHOWN))),
                _none_if_store_closed(self._count_orphaned(self._reads)),
                _none_if_store_closed(self._reads.read(GetFailures(since=since))),
            )
            if counts is not None:
                self._from_store["inbox_counts"] = inbox_totals(counts)
            if stops is not None:
                self._from_store["restarts"] = tuple(stops)
            if failures is not None:
                self._from_store["failures"] = failures
            if orphaned is not None:
                self._from_store |= orphaned
        return self.snapshot()

    async def _count_orphaned(self, reads: StoreReader) -> dict[str, Any]:
        """Only while it runs: during a start or a stop, open messages may have no owner."""
        if self._owned is None or not self.running:
            return {"orphaned": 0, "orphaned_since": None}
        # Read before the store: a message leaves `owned` after its end was committed, so one that
        # is not in `owned` now and has ended is not open in the store either.
        owned = self._owned()
        found = await reads.read(ListOpenMessages(before=self._clock.now() - _ORPHANED_AFTER))
        lost = [at for inbox_id, at in found.items() if inbox_id not in owned]
        return {"orphaned": len(lost), "orphaned_since": min(lost, default=None)}

    async def quick_snapshot(self) -> GatewaySnapshot:
        """The same within a few milliseconds: without fresh values if the store is busy."""
        try:
            async with asyncio.timeout(_QUICK_TIMEOUT):
                return await self.fresh_snapshot()
        except TimeoutError:
            return self.snapshot()

    def _state_in(self, phase: str) -> str:
        if phase in (RUNNING, STOPPED):
            return phase
        order = self._stop_order()
        if order is None:
            return "starting"  # without an order, only a start has phases
        return "restarting" if order.kind.restarts else "stopping"


def inbox_totals(counts: Mapping[InboxState, int]) -> dict[str, int]:
    """How many messages were accepted, and how many of them are in each state."""
    return {
        "accepted": sum(counts.values()),
        **{state.value: counts.get(state, 0) for state in InboxState},
    }


async def _none_if_store_closed(read: Awaitable[T]) -> T | None:
    try:
        return await read
    except StoreError:
        return None
