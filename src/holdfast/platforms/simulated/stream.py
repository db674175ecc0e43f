"""One account's stream of updates: each is given again and again until it is acknowledged."""

import asyncio
from collections import Counter

from holdfast.platforms.simulated.wire import Update


class Stream:
    """Owns what an account has not acknowledged, and how often each update was given."""

    def __init__(self) -> None:
        self.given: Counter[int] = Counter()
        self.acked: set[int] = set()
        self._pending: list[Update] = []
        self._in_hand: set[int] = set()
        self._changed = asyncio.Event()

    def put(self, update: Update) -> None:
        self._pending.append(update)
        self.wake()

    def waiting(self, offset: int) -> list[Update]:
        return [update for update in self._pending if update.id >= offset]

    def give(self, *, offset: int, limit: int) -> list[Update]:
        batch = self.waiting(offset)[:limit]
        self.given.update(update.id for update in batch)
        self._in_hand.update(update.id for update in batch)
        return batch

    def ack(self, up_to: int) -> list[Update]:
        """Forget what was given up to this id; returns what is acknowledged for the first time.

        What was never given stays, so that a copy of an old update outlives the old
        update's acknowledgement.
        """
        done = [u for u in self._pending if u.id <= up_to and u.id in self._in_hand]
        first = [update for update in done if update.id not in self.acked]
        ids = {update.id for update in done}
        self._pending = [update for update in self._pending if update.id not in ids]
        self._in_hand -= ids
        self.acked |= ids
        return first

    def wake(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        self._changed.clear()
        await self._changed.wait()
