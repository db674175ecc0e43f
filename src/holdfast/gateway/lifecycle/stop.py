"""The stop of a gateway: its phases in their order, each run for the reason the gateway goes."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.ids import SessionId
from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.lifecycle.draining import TurnDrainer
from holdfast.gateway.lifecycle.phases import Phase

DRAIN = "drain"  # the one phase whose length is the operator's


class GatewayStop:
    """Owns one stop, and what it has come to. Whatever was never started is passed over."""

    def __init__(
        self,
        order: StopOrder,
        gateway: Gateway,
        *,
        hurried: asyncio.Event,
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
            hurried=hurried,
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
            gateway.services.jobs.stop_scheduling()
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
        house = self._gateway.services
        try:
            await asyncio.gather(house.auxiliary.close(), house.memory.close())
        finally:
            self._stopped.set()
