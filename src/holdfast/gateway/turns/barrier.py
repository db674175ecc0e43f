"""A barrier in front of a lane: while it is down, what is said waits and no turn begins."""

import asyncio


class Barrier:
    """Put down by whoever must have the session to themselves, and lifted by them."""

    def __init__(self) -> None:
        self._resting = asyncio.Event()
        self._open = asyncio.Event()

    async def rest(self) -> None:
        """The lane stands before it, with nothing under way."""
        self._resting.set()
        await self._open.wait()

    async def rests(self) -> None:
        """Returns once the lane does, or has gone."""
        await self._resting.wait()

    def lift(self) -> None:
        self._resting.set()
        self._open.set()
