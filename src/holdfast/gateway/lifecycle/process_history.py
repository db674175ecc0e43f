"""Lives: how each process of this gateway came to its end, as rows of the store."""

from collections.abc import Mapping

from holdfast import __version__
from holdfast.core.ports.protocols import Clock, NewId, Store
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder, StopRow

KEPT = 1000  # rows; older ones are forgotten


class Lives:
    """Owns the row of this life, from the order that ends it; and writes that of the life before
    where nobody else could."""

    def __init__(self, *, clock: Clock, new_id: NewId) -> None:
        self._clock = clock
        self._new_id = new_id
        self._row: StopRow | None = None

    async def look_back(self, store: Store, *, ran: bool) -> None:
        """Find out whether the process before this one died without a word. `ran`: it was ready
        once, and nobody had asked it to stop.

        One that was killed on its way out has its row already, which is open still.
        """
        if await store.open_stops():
            return
        cut = sum(turn.left_as is None and not turn.waits for turn in await store.open_turns())
        if ran or cut:
            order = StopOrder(kind=StopKind.CRASH, by=AskedBy.NOBODY, at=self._clock.now())
            await store.record_stop(self._new(order, interrupted=cut))

    def end(self, order: StopOrder) -> str:
        """This life is to end; returns the id of its row."""
        self._row = self._new(order)
        return self._row.id

    async def leave(self, store: Store) -> None:
        if self._row is not None:
            await store.record_stop(self._row)

    async def left(
        self, store: Store, *, parked: int, interrupted: int, phases: Mapping[str, float]
    ) -> None:
        """The row as it stays: what became of the turns that ran, how long each phase took until
        now, and when it was over."""
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
            await store.record_stop(whole)

    def _new(self, order: StopOrder, *, interrupted: int = 0) -> StopRow:
        return StopRow(
            id=self._new_id("stop"), order=order, version=__version__, interrupted=interrupted
        )
