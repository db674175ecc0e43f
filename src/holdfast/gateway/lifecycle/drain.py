"""How a stop treats running turns: it drains, parks, marks and interrupts them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.text.translation import N_
from holdfast.core.turns.stop import StopOrder
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.sessions.resolver import SessionStore
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)


DRAIN = N_("drain")  # the one phase whose length the operator configures
_DETACH_TIMEOUT = 1.0  # seconds: runners that are not detached end with their turns


class NewTurnDrainer(Protocol):
    """Makes the drainer of a stop (`TurnDrainer`)."""

    def __call__(
        self, order: StopOrder, *, settings: GatewaySettings, urgent: asyncio.Event
    ) -> "TurnDrainer": ...


class TurnDrainer:
    """Lets the running turns finish, parks them at a step boundary, or marks and cuts them. Owns
    the counts of parked and interrupted turns.

    The order matters: a turn is marked before it is interrupted, so that a crash in between is an
    interruption that is noted and counted once.
    """

    def __init__(
        self,
        order: StopOrder,
        *,
        settings: GatewaySettings,
        urgent: asyncio.Event,
        lanes: Lanes,
        sessions: SessionStore,
        progress: Callable[[str], None],
        detach: Callable[[], Awaitable[None]],
    ) -> None:
        self._lanes = lanes
        self._sessions = sessions
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
        """C2. Without a timeout it does not wait, and parks the turns at a step boundary."""
        self._report()
        await self._wait_until_idle(self.finish_timeout)
        if self._order.kind.restarts:
            self._lanes.park()
            await self._wait_until_idle(self.park_timeout)
        self._report(force=True)

    async def mark(self) -> None:
        """F5: mark all turns that still run, and no others; durable when this returns."""
        mark = partial(self._sessions.mark_turn, reason=self._order.exit_reason)
        marks = self._lanes.leave(mark)
        results = await asyncio.gather(*marks, return_exceptions=True)
        for failure in (one for one in results if isinstance(one, BaseException)):
            log.error(
                "Could not mark a turn as interrupted: %s; the next start counts it as a crash",
                failure,
                extra={"action": "mark_failed"},
            )

    async def interrupt(self) -> None:
        """C3: once per agent. On a restart the runners are detached first: cancelling a turn kills
        the command that it waits for."""
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
        """Returns when no turn runs, when the time is over, or when the stop becomes urgent."""
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
        """The number of running turns; reported when it has changed, or with `force`."""
        running = self._lanes.count(LaneState.RUNNING)
        if running != self._reported or force:
            self._reported = running
            text = f"draining: {running} turn{'' if running == 1 else 's'}"
            self._progress(text)
            goes = "Restarting" if self._order.kind.restarts else "Stopping"
            log.info("%s, %s", goes, text, extra={"action": "draining", "turns": running})
        return running
