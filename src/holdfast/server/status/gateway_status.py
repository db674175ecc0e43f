"""The state of this process and the snapshot of its status, collected from every component that reports some."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import Any, TypeVar

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.ops.status import GatewaySnapshot
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreReader
from holdfast.core.turns.stop import StopOrder

RUNNING = "running"
STOPPED = "stopped"
_STOPS_SHOWN = 5
_QUICK_TIMEOUT = 0.025  # seconds; less than the status thread waits
_ORPHANED_AFTER = 60.0  # seconds; by then whatever was accepted has long been handed over

StatusSource = Callable[[], Mapping[str, Any]]
T = TypeVar("T")


class GatewayStatus:
    """Owns how far the process has come, and what the store last said; the rest it asks for.

    A source gives fields of a `Snapshot` from memory. It belongs to the event loop.
    """

    def __init__(self, *, clock: Clock, stop_order: Callable[[], StopOrder | None]) -> None:
        """`order`: the one to stop, once there is one."""
        self._clock = clock
        self._stop_order = stop_order
        self._sources: list[StatusSource] = []
        self._reads: StoreReader | None = None
        self._owned: Callable[[], Container[InboxId]] | None = None
        self._from_store: dict[str, Any] = {}  # what the store last said
        self._state, self._since = "starting", clock.now()
        self._phase, self._phase_since = "", self._since

    @property
    def running(self) -> bool:
        return self._state == RUNNING

    def enter_phase(self, phase: str) -> None:
        """The process has come this far, in its start, in its stop, or to where it runs."""
        now = self._clock.now()
        self._phase, self._phase_since = phase, now
        state = self._state_in(phase)
        if state != self._state:
            self._state, self._since = state, now

    def add_sources(self, *sources: StatusSource) -> None:
        self._sources.extend(sources)

    def use_store(self, reads: StoreReader) -> None:
        """The store is open: what it knows is told from now on."""
        self._reads = reads

    def track_owned(self, owned: Callable[[], Container[InboxId]]) -> None:
        """The messages that are worked on here: what is open in the store besides is told."""
        self._owned = owned

    def snapshot(self) -> GatewaySnapshot:
        """What is known without waiting for anybody."""
        told: dict[str, Any] = dict(self._from_store)
        for source in self._sources:
            told |= source()
        return GatewaySnapshot(
            state=self._state,
            since=self._since,
            phase="" if self._phase == self._state else self._phase,
            phase_since=self._phase_since,
            order=self._stop_order(),
            **told,
        )

    async def fresh_snapshot(self) -> GatewaySnapshot:
        """The same, with what the store says now; where it cannot, with what it said last."""
        if self._reads is not None:
            ledger, stops, unowned = await asyncio.gather(
                _none_if_store_closed(self._reads.inbox_counts()),
                _none_if_store_closed(self._reads.last_stops(limit=_STOPS_SHOWN)),
                _none_if_store_closed(self._count_orphaned(self._reads)),
            )
            if ledger is not None:
                self._from_store["inbox_counts"] = inbox_totals(ledger)
            if stops is not None:
                self._from_store["restarts"] = tuple(stops)
            if unowned is not None:
                self._from_store |= unowned
        return self.snapshot()

    async def _count_orphaned(self, reads: StoreReader) -> dict[str, Any]:
        """Only while it runs: a start has not taken everything up yet, and a stop lets go of it."""
        if self._owned is None or not self.running:
            return {"orphaned": 0, "orphaned_since": None}
        # Before the store is asked: an end is told here after its commit, so that what is not here
        # by now and has ended is not open there either.
        owned = self._owned()
        found = await reads.open_messages(before=self._clock.now() - _ORPHANED_AFTER)
        lost = [at for inbox_id, at in found.items() if inbox_id not in owned]
        return {"orphaned": len(lost), "orphaned_since": min(lost, default=None)}

    async def quick_snapshot(self) -> GatewaySnapshot:
        """The same, for who cannot wait: a store that is busy says later what it knows."""
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
    """The ledger as it is shown: what was accepted, by what became of it."""
    return {
        "accepted": sum(counts.values()),
        **{state.value: counts.get(state, 0) for state in InboxState},
    }


async def _none_if_store_closed(read: Awaitable[T]) -> T | None:
    try:
        return await read
    except StoreError:
        return None
