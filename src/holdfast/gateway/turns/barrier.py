"""A barrier in front of a lane: while it is down, what is said waits and no turn begins."""

import asyncio


class LanePause:
    """Put down by whoever must have the session to themselves, and lifted by them."""

    def __init__(self) -> None:
        self._held = asyncio.Event()
        self._released = asyncio.Event()

    async def hold_lane(self) -> None:
        """The lane stands before it, with nothing under way."""
        self._held.set()
        await self._released.wait()

    async def wait_until_held(self) -> None:
        """Returns once the lane does, or has gone."""
        await self._held.wait()

    def release(self) -> None:
        self._held.set()
        self._released.set()
