"""The history of this gateway's processes: how each came to its end, as rows of the store."""

from collections.abc import Mapping

from holdfast import __version__
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import RecordStop
from holdfast.core.ports.store_queries import ListOpenStops, ListOpenTurns
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow

MAX_ROWS = 1000  # older ones are deleted


class ProcessHistory:
    """Owns the row of this process's stop, from the order on. Also records a crash of the previous
    process, which could not do so itself."""

    def __init__(self, *, clock: Clock, new_id: IdFactory) -> None:
        self._clock = clock
        self._new_id = new_id
        self._row: StopRow | None = None

    async def record_crash(self, store: Store, *, ran: bool) -> None:
        """Record a crash of the previous process, if it crashed. `ran`: it was ready, and was not
        told to stop.

        A process that was killed during its stop has an open row already.
        """
        if await store.read(ListOpenStops()):
            return
        cut = sum(
            turn.exit_reason is None and not turn.is_waiting
            for turn in await store.read(ListOpenTurns())
        )
        if ran or cut:
            order = StopOrder(kind=StopKind.CRASH, by=StopRequester.NONE, at=self._clock.now())
            await store.write(RecordStop(row=self._new_row(order, interrupted=cut)))

    def begin_stop(self, order: StopOrder) -> str:
        """This process is about to stop; returns the id of its row."""
        self._row = self._new_row(order)
        return self._row.id

    async def record_stop_begun(self, store: Store) -> None:
        if self._row is not None:
            await store.write(RecordStop(row=self._row))

    async def record_stopped(
        self, store: Store, *, parked: int, interrupted: int, phases: Mapping[str, float]
    ) -> None:
        """Complete the row: what happened to the running turns, how long each phase took, and when
        the stop ended."""
        if (row := self._row) is not None:
            whole = StopRow(
                id=row.id,
                order=row.order,
                version=row.version,
                parked=parked,
                interrupted=interrupted,
                stopped_at=self._clock.now(),
                phases=phases,
            )
            await store.write(RecordStop(row=whole))

    def _new_row(self, order: StopOrder, *, interrupted: int = 0) -> StopRow:
        return StopRow(
            id=self._new_id("stop"), order=order, version=__version__, interrupted=interrupted
        )
