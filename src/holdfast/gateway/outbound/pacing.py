"""Pacing: one gate per account and chat, in front of everything that is sent there."""

import asyncio

from holdfast.core.ports.protocols import Clock


class RateGate:
    """Owns until when an account or chat must be left in peace."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Nobody passes for so long; a hold never shortens another."""
        self._until = max(self._until, self._clock.monotonic() + seconds)

    @property
    def is_held(self) -> bool:
        return self.held_for > 0

    @property
    def held_for(self) -> float:
        """Seconds, as far as is known; a hold may grow."""
        return max(0.0, self._until - self._clock.monotonic())

    async def wait(self) -> None:
        if (wait := self.held_for) > 0:
            await asyncio.sleep(wait)
            await self.wait()  # the hold may have grown meanwhile
