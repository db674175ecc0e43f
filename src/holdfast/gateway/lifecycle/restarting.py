"""Restarting: how the house asks the process it lives in to go, and when it is told no."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.lifecycle.departure import Departure

log = logging.getLogger(__name__)


class Restarting:
    """`core.ports.Lifecycle`. Owns the one restart that is being checked or waits for quiet.

    `check` raises `RestartRefused` where a successor could not start; it is told whether the
    restart follows at once. `quiet` returns when no turn runs; one that begins behind it is parked.
    """

    def __init__(
        self,
        departure: Departure,
        *,
        check: Callable[[bool], Awaitable[None]],
        quiet: Callable[[], Awaitable[None]],
        news: Callable[[], None] = lambda: None,
    ) -> None:
        self._departure = departure
        self._check = check
        self._quiet = quiet
        self._news = news  # told when a restart begins to wait, or does so no more
        self._checking = False
        self._later: asyncio.Task[None] | None = None
        self.waiting: StopOrder | None = None  # a restart that waits until no turn runs

    @property
    def order(self) -> StopOrder | None:
        return self._departure.order

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        self._refuse_a_second(when_idle=when_idle)
        await self._must_be_fit(soon=not when_idle)
        # It may have been told to stop while the successor was looked at.
        self._refuse_a_second(when_idle=when_idle)
        if when_idle:
            self.waiting = order
            self._later = asyncio.create_task(self._when_quiet(order), name="restart when idle")
            self._news()
        else:
            self._go(order)

    async def _must_be_fit(self, *, soon: bool) -> None:
        """One at a time: two would take each other's successor away."""
        self._checking = True
        try:
            await self._check(soon)
        finally:
            self._checking = False

    def stop(self, order: StopOrder) -> None:
        if not self._go(order):
            self._departure.hurry()

    def _refuse_a_second(self, *, when_idle: bool) -> None:
        if (standing := self._departure.order) is not None:
            what = "restarting" if standing.kind.restarts else "stopping"
            raise RestartRefused(f"the gateway is {what} already.")
        if self._checking:
            raise RestartRefused("a restart was asked for a moment ago; its successor is checked.")
        if when_idle and self.waiting is not None:
            raise RestartRefused(
                "a restart waits already until no turn runs; one without `when idle` goes now."
            )

    async def _when_quiet(self, order: StopOrder) -> None:
        """Checked again: hours may have passed since it was, and a file have been edited."""
        await self._quiet()
        try:
            await self._must_be_fit(soon=True)
        except RestartRefused as refused:
            self._later = self.waiting = None
            log.error(
                "The restart that waited is called off: %s",
                refused,
                extra={"action": "restart_refused"},
            )
            self._news()
            return
        self._go(order)

    def _go(self, order: StopOrder) -> bool:
        """The order is given; one that waited is overtaken by it, or has come to its end."""
        later, self._later, self.waiting = self._later, None, None
        if later is not None and later is not asyncio.current_task():
            later.cancel()
        return self._departure.ask(order)
