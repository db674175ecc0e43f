"""Progress: how far a start or a stop has come, for those who wait for its end."""

import asyncio
from collections.abc import AsyncIterator


class LifecycleProgress:
    """Owns those who follow. Each is told the present phase first, then each that comes, until
    there is nobody any more who could tell them."""

    def __init__(self) -> None:
        self._phase = ""
        self._closed = False
        self._followers: set[asyncio.Queue[str | None]] = set()

    def publish(self, phase: str) -> None:
        self._phase = phase
        for each in self._followers:
            each.put_nowait(phase)

    def close(self) -> None:
        self._closed = True
        for each in self._followers:
            each.put_nowait(None)

    async def follow(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        queue.put_nowait(None if self._closed else self._phase)
        self._followers.add(queue)
        try:
            while (phase := await queue.get()) is not None:
                yield phase
        finally:
            self._followers.discard(queue)
