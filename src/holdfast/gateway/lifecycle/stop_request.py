"""The one request to stop, and the controller that checks, delays or refuses restarts."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import StopOrder

log = logging.getLogger(__name__)


class StopRequest:
    """Owns the order to stop: the first one counts, later ones only hurry it. `urgent` is set when
    the stop must not wait any longer."""

    def __init__(self) -> None:
        self.order: StopOrder | None = None
        self.urgent = asyncio.Event()
        self._requested = asyncio.Event()

    def request(self, order: StopOrder) -> bool:
        """False: there is an order already."""
        if self.order is not None:
            return False
        self.order = order
        if order.now:
            self.urgent.set()
        self._requested.set()
        return True

    def hurry(self) -> None:
        self.urgent.set()

    async def wait(self) -> StopOrder:
        """Wait for the order."""
        await self._requested.wait()
        assert self.order is not None, "the event is set by the order"
        return self.order


class RestartController:
    """Implements `Lifecycle`: how the gateway asks its process to restart. Owns the one restart
    that is being checked or waits until no turn runs.

    `check` raises `RestartRefused` if a successor could not start; its argument says whether the
    restart follows at once. `wait_until_idle` returns when no turn runs; a turn that begins after
    that is parked.
    """

    def __init__(
        self,
        stop_request: StopRequest,
        *,
        check: Callable[[bool], Awaitable[None]],
        wait_until_idle: Callable[[], Awaitable[None]],
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._stop_request = stop_request
        self._check = check
        self._wait_until_idle = wait_until_idle
        self._on_change = on_change  # called when a restart begins or ends to wait
        self._checking = False
        self._idle_task: asyncio.Task[None] | None = None
        self.pending_restart: StopOrder | None = None  # a restart that waits until no turn runs

    @property
    def stop_order(self) -> StopOrder | None:
        return self._stop_request.order

    async def restart(self, order: StopOrder, *, when_idle: bool = False) -> None:
        self._refuse_if_stopping(when_idle=when_idle)
        await self._check_successor(soon=not when_idle)
        # A stop may have been requested while the successor was checked.
        self._refuse_if_stopping(when_idle=when_idle)
        if when_idle:
            self.pending_restart = order
            self._idle_task = asyncio.create_task(
                self._restart_when_idle(order), name="restart when idle"
            )
            self._on_change()
        else:
            self._request_stop(order)

    async def _check_successor(self, *, soon: bool) -> None:
        """One at a time: two checks would compete for the successor."""
        self._checking = True
        try:
            await self._check(soon)
        finally:
            self._checking = False

    def stop(self, order: StopOrder) -> None:
        if not self._request_stop(order):
            self._stop_request.hurry()

    def _refuse_if_stopping(self, *, when_idle: bool) -> None:
        if (order := self._stop_request.order) is not None:
            if order.kind.restarts:
                raise RestartRefused("The gateway is already restarting.")
            raise RestartRefused("The gateway is already stopping.")
        if self._checking:
            raise RestartRefused(
                "A restart was requested a moment ago, and it is being checked whether the gateway "
                "can start again. Wait a moment."
            )
        if when_idle and self.pending_restart is not None:
            raise RestartRefused(
                "A restart is already scheduled for when the gateway is idle. Leave out "
                "`when idle` to restart now."
            )

    async def _restart_when_idle(self, order: StopOrder) -> None:
        """Check the successor again: hours may have passed, and files may have changed."""
        await self._wait_until_idle()
        try:
            await self._check_successor(soon=True)
        except RestartRefused as refused:
            self._idle_task = self.pending_restart = None
            log.error(
                "Cancelled the scheduled restart: %s",
                refused,
                extra={"action": "restart_refused"},
            )
            self._on_change()
            return
        self._request_stop(order)

    def _request_stop(self, order: StopOrder) -> bool:
        """Give the order. It replaces a scheduled restart."""
        later, self._idle_task, self.pending_restart = self._idle_task, None, None
        if later is not None and later is not asyncio.current_task():
            later.cancel()
        return self._stop_request.request(order)
