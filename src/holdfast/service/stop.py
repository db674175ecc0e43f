"""The stop of a process: one list of named phases, from the intent to the successor."""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.core.text.translation import N_
from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.lifecycle.drain import DRAIN
from holdfast.gateway.lifecycle.phases import Phase
from holdfast.gateway.lifecycle.process_history import ProcessHistory
from holdfast.service.handover import Handover
from holdfast.service.start import ProcessContext, StartedParts
from holdfast.system import exit_codes

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class ProcessStop:
    """One stop, for one order. `exit_code` is valid once it is over; `phase_seconds` holds the
    duration of each phase that has ended.

    What the start has not opened is skipped. A failed start is unwound by the same phases, but
    leaves no record: it never ran.
    """

    order: StopOrder
    urgent: asyncio.Event
    context: ProcessContext
    started: StartedParts
    history: ProcessHistory
    handover: Handover
    start_task: asyncio.Task[None]
    failed: bool
    exit_code: int = field(default=exit_codes.OK, init=False)
    phase_seconds: dict[str, float] = field(default_factory=dict, init=False)

    def phases(self) -> Iterator[Phase]:
        """A generator: each phase is made when the one before it has ended, so that it sees what
        the start has opened by then. Without the drain and the last phase, the gateway's phases
        take at most 19 s and these 6 s (C1)."""
        yield Phase(N_("record intent"), 1, self._record_intent)
        if not self.start_task.done():
            yield Phase(N_("leave the start"), 0.5, self._cancel_start)
        yield from self._gateway_phases()
        yield Phase(N_("close the listeners"), 1.25, self._close_listeners)
        yield Phase(N_("close the models"), 0.5, self._close_models)
        yield Phase(N_("complete the record"), 0.5, self._complete_record)
        yield Phase(N_("close the store"), 1.5, self._close_store)
        yield Phase(N_("record state"), 0.25, self._record_state)
        yield Phase(N_("release the lock"), 0.25, self._release_lock)
        yield Phase(N_("ask for a successor"), 3, self._request_successor)

    def _gateway_phases(self) -> Iterator[Phase]:
        """The gateway's phases, and the point from which new connections wait for the successor:
        before them, as they take seconds; but after a configured drain, which may take an hour and
        during which clients can still look and are asked to come back."""
        stop_accepting = Phase(N_("stop accepting"), 0.25, self._stop_accepting)
        gateway, restarts = self.started.gateway, self.order.kind.restarts
        if gateway is None:
            return
        drains = gateway.settings.gateway.restart_drain_timeout > 0
        if restarts and not drains:
            yield stop_accepting
        for phase in gateway.phases(self.order, urgent=self.urgent, took=self.phase_seconds):
            yield phase
            if restarts and drains and phase.name == DRAIN:
                yield stop_accepting

    @property
    def _leaves_record(self) -> bool:
        return self.started.ready or not self.failed

    async def _record_intent(self) -> None:
        if not self._leaves_record:
            return
        row = self.history.begin_stop(self.order)
        try:
            self.context.intent.record_stopping(self.order, row)
        finally:
            if self.started.store is not None:
                await self.history.record_stop_begun(self.started.store)

    async def _cancel_start(self) -> None:
        self.start_task.cancel()
        await asyncio.wait({self.start_task})

    async def _stop_accepting(self) -> None:
        """New connections wait for the successor from now on; they are not refused."""
        if (listener := self.started.listener) is not None:
            self.handover.keep_sockets([sock.dup() for sock in listener.sockets])
            await listener.stop_accepting()

    async def _close_listeners(self) -> None:
        try:
            if self.started.listener is not None:
                await self.started.listener.__aexit__()
        finally:
            if self.started.control is not None:
                await self.started.control.__aexit__()

    async def _close_models(self) -> None:
        if self.started.models is not None:
            await self.started.models.__aexit__(None, None, None)

    async def _complete_record(self) -> None:
        if self.started.store is not None and self._leaves_record:
            gateway = self.started.gateway
            parked, interrupted = (gateway.parked, gateway.interrupted) if gateway else (0, 0)
            await self.history.record_stopped(
                self.started.store,
                parked=parked,
                interrupted=interrupted,
                phases=self.phase_seconds,
            )

    async def _close_store(self) -> None:
        try:
            if self.started.maintenance is not None:
                await self.started.maintenance.close()
        finally:
            if self.started.store is not None:
                await self.started.store.__aexit__()
            self.started.store = None

    async def _record_state(self) -> None:
        if self._leaves_record:
            self.context.intent.record_stopped(self.order)

    async def _release_lock(self) -> None:
        """Only if nothing of this process can write any more. Otherwise the kernel releases it when
        this process ends: two processes never write at once."""
        try:
            # First, or it would remove the socket of the process that gets the lock.
            self.context.status_thread.__exit__()
        finally:
            if self.start_task.done() and self.started.store is None:
                self.context.launch.lock.release()
        # A start that failed has accepted nothing, and may not have opened the store.
        if self._leaves_record:
            log.info("Stopped; pending work is in the store.", extra={"action": "stopped"})
        else:
            log.info("Stopped before it had started.", extra={"action": "stopped"})

    async def _request_successor(self) -> None:
        # From here on a signal is the supervisor's reaction to this request, not a new order.
        self.context.signals.ignore()
        self.exit_code = await self.handover.arrange_successor(self.order.kind)
