"""A gate in front of a lane: while it is shut, what is said waits and no turn begins."""

import asyncio


class Gate:
    """Made shut by whoever must have the session to themselves, and opened by them."""

    def __init__(self) -> None:
        self._resting = asyncio.Event()
        self._open = asyncio.Event()

    async def rest(self) -> None:
        """The lane stands before the gate, with nothing under way."""
        self._resting.set()
        await self._open.wait()

    async def rests(self) -> None:
        """Returns once the lane does, or has gone."""
        await self._resting.wait()

    def open(self) -> None:
        self._resting.set()
        self._open.set()
