"""Departure: whether and why this gateway goes. The first order stands; the rest hurry it."""

import asyncio

from holdfast.core.turns.stop import StopOrder


class Departure:
    """Owns the one order to stop. `hurried` is set when nothing more is to be waited for."""

    def __init__(self) -> None:
        self.order: StopOrder | None = None
        self.hurried = asyncio.Event()
        self._asked = asyncio.Event()

    def ask(self, order: StopOrder) -> bool:
        """False: another order stands already."""
        if self.order is not None:
            return False
        self.order = order
        if order.now:
            self.hurried.set()
        self._asked.set()
        return True

    def hurry(self) -> None:
        self.hurried.set()

    async def asked(self) -> StopOrder:
        """The order, waited for."""
        await self._asked.wait()
        assert self.order is not None, "the event is set by the order"
        return self.order
