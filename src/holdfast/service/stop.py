"""The stop of a process: one list of named phases, from the intent to the successor."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.lifecycle.phases import Phase
from holdfast.gateway.lifecycle.process_history import Lives
from holdfast.gateway.lifecycle.stop import DRAIN
from holdfast.service.footing import Begun, Footing
from holdfast.service.heritage import Heritage
from holdfast.system import exits

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Stop:
    """One stop, for one order. `code` is the exit code, once it is over; `took`: the seconds of
    each phase that has ended.

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
    took: dict[str, float] = field(default_factory=dict, init=False)

    def phases(self) -> Iterator[Phase]:
        """Each is asked for when the one before it has ended, so that what a start has begun is
        known by the time it matters. But for the drain and the last, the gateway's take 19 s and
        these 6 (C1)."""
        yield Phase("record intent", 1, self._record_intent)
        if not self.starting.done():
            yield Phase("leave the start", 0.5, self._leave_start)
        yield from self._of_the_gateway()
        yield Phase("close the listeners", 1.25, self._close_listeners)
        yield Phase("close the models", 0.5, self._close_models)
        yield Phase("complete the record", 0.5, self._complete_record)
        yield Phase("close the store", 1.5, self._close_store)
        yield Phase("record state", 0.25, self._record_state)
        yield Phase("release the lock", 0.25, self._release_lock)
        yield Phase("ask for a successor", 3, self._ask_for_successor)

    def _of_the_gateway(self) -> Iterator[Phase]:
        """With the instant in which whoever connects is left to the successor: at once, for what
        is to come takes seconds; behind a drain that somebody asked for, which may take an hour,
        and in which people can look and are told to come back."""
        stop_accepting = Phase("stop accepting", 0.25, self._stop_accepting)
        running, restarts = self.begun.running, self.order.kind.restarts
        if running is None:
            return
        drains = running.gateway.house.settings.gateway.restart_drain_timeout > 0
        if restarts and not drains:
            yield stop_accepting
        for phase in running.phases(self.order, hurried=self.hurried):
            yield phase
            if restarts and drains and phase.name == DRAIN:
                yield stop_accepting

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
            running = self.begun.running
            parked, interrupted = (running.parked, running.interrupted) if running else (0, 0)
            await self.lives.left(
                self.begun.store, parked=parked, interrupted=interrupted, phases=self.took
            )

    async def _close_store(self) -> None:
        try:
            if self.begun.upkeep is not None:
                await self.begun.upkeep.close()
        finally:
            if self.begun.store is not None:
                await self.begun.store.__aexit__()
            self.begun.store = None

    async def _record_state(self) -> None:
        if self._recorded:
            self.footing.intent.left(self.order)

    async def _release_lock(self) -> None:
        """Only where nothing of ours can write any more. Else the kernel gives it back, with the
        end of this process: at no time do two write."""
        try:
            # First, or it would remove the socket of whoever takes the lock.
            self.footing.status.__exit__()
        finally:
            if self.starting.done() and self.begun.store is None:
                self.footing.ground.lock.release()
        # A start that failed has taken nothing, and may have had no store to owe anything from.
        owed = "; all that is owed is in the store" if self._recorded else " before it had begun"
        log.info("Stopped%s.", owed, extra={"action": "stopped"})

    async def _ask_for_successor(self) -> None:
        # From here on a signal is the supervisor's answer to what we ask, and no wish of anybody.
        self.footing.signals.ignore()
        self.code = await self.heritage.arrange(self.order.kind)
