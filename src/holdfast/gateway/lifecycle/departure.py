"""Departure: whether and why this gateway goes. The first order stands; the rest hurry it."""

import asyncio

from holdfast.core.turns.stop import StopOrder


class StopRequest:
    """Owns the one order to stop. `hurried` is set when nothing more is to be waited for."""

    def __init__(self) -> None:
        self.order: StopOrder | None = None
        self.hurried = asyncio.Event()
        self._requested = asyncio.Event()

    def request(self, order: StopOrder) -> bool:
        """False: another order stands already."""
        if self.order is not None:
            return False
        self.order = order
        if order.now:
            self.hurried.set()
        self._requested.set()
        return True

    def hurry(self) -> None:
        self.hurried.set()

    async def wait(self) -> StopOrder:
        """The order, waited for."""
        await self._requested.wait()
        assert self.order is not None, "the event is set by the order"
        return self.order
