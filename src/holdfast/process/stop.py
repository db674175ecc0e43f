"""The stop of a process: one list of named phases, from the intent to the successor."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.core.stopping import StopOrder
from holdfast.gateway.lives import Lives
from holdfast.gateway.shutdown import Phase
from holdfast.process.footing import Begun, Footing
from holdfast.process.heritage import Heritage
from holdfast.service import exits

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Stop:
    """One stop, for one order. `code` is the exit code, once it is over.

    What the start has not entered is skipped. A failed start is unwound by the same list, but
    leaves no record: it was no life that could end.
    """

    order: StopOrder
    hurried: asyncio.Event
    footing: Footing
    begun: Begun
    lives: Lives
    heritage: Heritage
    starting: asyncio.Task[None]
    failed: bool
    code: int = field(default=exits.OK, init=False)

    def phases(self) -> Iterator[Phase]:
        """Each is asked for when the one before it has ended, so that what a start has begun is
        known by the time it matters. All but drain and park together: 25 s (C1)."""
        begun, gateway = self.begun, self.begun.gateway
        yield Phase("record intent", 1, self._record_intent)
        if not self.starting.done():
            yield Phase("leave the start", 2, self._leave_start)
            gateway = begun.gateway
        if begun.listener is not None and self.order.kind.restarts:
            yield Phase("stop accepting", 0.5, self._stop_accepting)
        if gateway is not None:
            yield from gateway.phases(self.order, hurried=self.hurried)
        yield Phase("close the listeners", 1.5, self._close_listeners)
        yield Phase("close the models", 1, self._close_models)
        yield Phase("complete the record", 0.5, self._complete_record)
        yield Phase("close the store", 2, self._close_store)
        yield Phase("record state", 0.5, self._record_state)
        yield Phase("release the lock", 0.5, self._release_lock)
        yield Phase("ask for a successor", 3, self._ask_for_successor)

    @property
    def _recorded(self) -> bool:
        return self.begun.ready or not self.failed

    async def _record_intent(self) -> None:
        if not self._recorded:
            return
        row = self.lives.end(self.order)
        try:
            self.footing.intent.leaving(self.order, row)
        finally:
            if self.begun.store is not None:
                await self.lives.leave(self.begun.store)

    async def _leave_start(self) -> None:
        self.starting.cancel()
        await asyncio.wait({self.starting})

    async def _stop_accepting(self) -> None:
        """Whoever connects from now on waits for the successor, and is not refused."""
        if (listener := self.begun.listener) is not None:
            self.heritage.keep([sock.dup() for sock in listener.sockets])
            await listener.leave()

    async def _close_listeners(self) -> None:
        try:
            if self.begun.listener is not None:
                await self.begun.listener.__aexit__()
        finally:
            if self.begun.control is not None:
                await self.begun.control.__aexit__()

    async def _close_models(self) -> None:
        if self.begun.models is not None:
            await self.begun.models.__aexit__(None, None, None)

    async def _complete_record(self) -> None:
        if self.begun.store is not None and self._recorded:
            gateway = self.begun.gateway
            parked, interrupted = (gateway.parked, gateway.interrupted) if gateway else (0, 0)
            await self.lives.left(self.begun.store, parked=parked, interrupted=interrupted)

    async def _close_store(self) -> None:
        if self.begun.store is not None:
            await self.begun.store.__aexit__()

    async def _record_state(self) -> None:
        if self._recorded:
            self.footing.intent.left(self.order)

    async def _release_lock(self) -> None:
        log.info("Stopped; all that is owed is in the store.", extra={"action": "stopped"})
        try:
            # First, or it would remove the socket of whoever takes the lock.
            self.footing.status.__exit__()
        finally:
            self.footing.ground.lock.release()

    async def _ask_for_successor(self) -> None:
        # From here on a signal is the supervisor's answer to what we ask, and no wish of anybody.
        self.footing.signals.ignore()
        self.code = await self.heritage.arrange(self.order.kind)
