"""The stop of a gateway: its phases, and how running turns are drained, parked, marked and cut."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.ids import SessionId
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.app import Gateway
from holdfast.gateway.lifecycle.phases import Phase
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


DRAIN = "drain"  # the one phase whose length the operator configures
_DETACH_TIMEOUT = 1.0  # seconds: runners that are not detached end with their turns


class TurnDrainer:
    """Lets the running turns finish, parks them at a step boundary, or marks and cuts them. Owns
    the counts of parked and interrupted turns.

    The order matters: a turn is marked before it is interrupted, so that a crash in between is an
    interruption that is noted and counted once.
    """

    def __init__(
        self,
        lanes: Lanes,
        order: StopOrder,
        *,
        settings: GatewaySettings,
        urgent: asyncio.Event,
        progress: Callable[[str], None],
        detach: Callable[[], Awaitable[None]],
    ) -> None:
        self._lanes = lanes
        self._order = order
        self._settings = settings
        self._urgent = urgent
        self._progress = progress
        self._detach = detach
        self._reported = -1
        self.parked = 0
        self.interrupted = 0

    @property
    def finish_timeout(self) -> float:
        """Seconds that running turns have to finish."""
        return 0.0 if self._order.now else self._settings.restart_drain_timeout

    @property
    def park_timeout(self) -> float:
        """Seconds that they have after that to reach a step boundary."""
        waits = self._order.kind.restarts and not self._order.now
        return self._settings.park_timeout if waits else 0.0

    async def drain(self) -> None:
        """C2. Without a window nothing is waited for, and who stands at a boundary is parked."""
        self._report()
        await self._wait_until_idle(self.finish_timeout)
        if self._order.kind.restarts:
            self._lanes.park()
            await self._wait_until_idle(self.park_timeout)
        self._report(force=True)

    async def mark(self) -> None:
        """F5: all that still runs, and nothing else; durable when this returns."""
        marks = self._lanes.leave(self._order.exit_reason)
        results = await asyncio.gather(*marks, return_exceptions=True)
        for failure in filter(None, results):
            log.error("A turn could not be marked: %s", failure, extra={"action": "mark_failed"})

    async def interrupt(self) -> None:
        """C3: once per agent. On a restart what runs in the runners is let go first: cancelling a
        turn kills the command that it waits for."""
        restarts = self._order.kind.restarts
        try:
            if restarts:
                async with asyncio.timeout(_DETACH_TIMEOUT):
                    await self._detach()
        finally:
            self.parked = self._lanes.parked_count
            self.interrupted = self._lanes.cut(self._order.agent_notice, detached=restarts)
            await self._lanes.close()

    async def _wait_until_idle(self, seconds: float) -> None:
        """Returns when no turn runs, when the time is over, or when nobody wants to wait."""
        if seconds <= 0:
            return
        waking = asyncio.create_task(self._wake_when_urgent(), name="hurry")
        try:
            async with asyncio.timeout(seconds):
                while self._report() and not self._urgent.is_set():
                    self._lanes.changed.clear()
                    await self._lanes.changed.wait()
        except TimeoutError:
            return
        finally:
            waking.cancel()

    async def _wake_when_urgent(self) -> None:
        await self._urgent.wait()
        self._lanes.changed.set()

    def _report(self, *, force: bool = False) -> int:
        """How many turns run; whoever looks is told when that has changed, or at the end."""
        running = self._lanes.count(LaneState.RUNNING)
        if running != self._reported or force:
            self._reported = running
            text = f"draining: {running} turn{'' if running == 1 else 's'}"
            self._progress(text)
            goes = "Restarting" if self._order.kind.restarts else "Stopping"
            log.info("%s, %s.", goes, text, extra={"action": "draining", "turns": running})
        return running


class GatewayStop:
    """Owns one stop: its phases in order. Parts that were never started are skipped."""

    def __init__(
        self,
        order: StopOrder,
        gateway: Gateway,
        *,
        urgent: asyncio.Event,
        cancel_start: Callable[[], Awaitable[None]],
        stopped: asyncio.Event,
    ) -> None:
        self._order = order
        self._gateway = gateway
        self._cancel_start = cancel_start
        self._stopped = stopped  # set by the last phase
        self._mid_turn: set[SessionId] = set()  # the sessions that had a lane when it began
        self.drainer = TurnDrainer(
            gateway.lanes,
            order,
            settings=gateway.services.settings.gateway,
            urgent=urgent,
            progress=gateway.dependencies.progress,
            detach=gateway.dependencies.runners.detach,
        )

    def phases(self) -> list[Phase]:
        """C1. All but the drain take 19 seconds at most; the rest of the 25 are the process's."""
        draining = self.drainer
        longest = draining.finish_timeout + draining.park_timeout + 1
        return [
            Phase("close intake", 0.5, self._close_intake),
            Phase("notify", 1.5, self._notify),
            Phase(DRAIN, longest, draining.drain),
            Phase("mark", 2, draining.mark),
            Phase("interrupt", 3, self._interrupt),
            Phase("kill tools", 2, self._kill_tools),
            Phase("finalise agents", 1.5, self._finalise_agents),
            Phase("empty the cache", 0.5, self._empty_cache),
            Phase("flush outbox", 2, self._gateway.outbox.flush),
            Phase("disconnect platforms", 2, self._disconnect),
            Phase("cancel tasks", 1.5, self._cancel_tasks),
            Phase("kill tools again", 1, self._kill_tools_again),
            Phase("close auxiliary clients", 1.5, self._close_auxiliary_clients),
        ]

    async def _close_intake(self) -> None:
        gateway = self._gateway
        gateway.intake.close()
        # Who is given time to finish may need help for that.
        gateway.lanes.hold(allow_subagents=self.drainer.finish_timeout > 0)
        try:
            await self._cancel_start()
        finally:  # also where the start does not let go in time
            gateway.services.subagents.detach()
            gateway.scheduler.close()
            gateway.expiry.close()
            # Noted before the lanes go: an agent that is mid-turn may be in no cache any more.
            self._mid_turn = {lane.session_id for lane in gateway.lanes}

    async def _notify(self) -> None:
        await self._gateway.lifecycle_notices.send_shutdown_notices(self._order)

    async def _interrupt(self) -> None:
        gateway = self._gateway
        gateway.intake.close_to_subagents()
        try:
            await self.drainer.interrupt()
        finally:
            # Behind the turns: whoever watches one that has just ended hears how.
            gateway.services.subscriptions.close()
            gateway.services.feeds.close()

    async def _kill_tools(self) -> None:
        """C4: where turns had to be interrupted, before the platforms go: a supervisor's kill timer
        finds no child alive. On the graceful path the last sweep is soon enough."""
        if self.drainer.interrupted:
            await self._end_tools()

    async def _finalise_agents(self) -> None:
        gateway = self._gateway
        await gateway.services.memory.finalise({*self._mid_turn, *gateway.services.cache})

    async def _empty_cache(self) -> None:
        self._gateway.services.cache.clear()

    async def _disconnect(self) -> None:
        try:
            await self._gateway.accounts.close()
        finally:
            await self._gateway.outbox.close()

    async def _cancel_tasks(self) -> None:
        await self._gateway.services.auxiliary.close()  # a title still asked for is one of these
        await self._gateway.task_group.close()

    async def _kill_tools_again(self) -> None:
        await self._end_tools()

    async def _end_tools(self) -> None:
        """What a successor can take over is let go of on a restart; all else ends."""
        parts, restarts = self._gateway.dependencies, self._order.kind.restarts
        going = [parts.runners.detach() if restarts else parts.runners.end_all()]
        going += [holder.end_all() for holder in parts.holders]
        failures = [
            failure
            for failure in await asyncio.gather(*going, return_exceptions=True)
            if isinstance(failure, Exception)
        ]
        if failures:
            raise ExceptionGroup("what the sessions held could not be ended", failures)

    async def _close_auxiliary_clients(self) -> None:
        """Memory's providers too, behind the tasks: a command that ends a session is one."""
        services = self._gateway.services
        try:
            await asyncio.gather(services.auxiliary.close(), services.memory.close())
        finally:
            self._stopped.set()
