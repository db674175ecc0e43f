"""One account's stream of updates: what is kept of it for a bot that is away, and what is not."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.simulated.events import Update

_GRACE = 5.0  # seconds between two polls of a bot that is there


class Stream:
    """Owns what an account has not been given or not acknowledged, and how often each was given.

    `until_acked`: an update is given again and again until it is acknowledged. Else it is given
    once, to a bot that is there; one that is not misses it, and may find it in the `history`.
    """

    def __init__(self, backlog: Backlog = Backlog.UNTIL_ACKED) -> None:
        self.backlog = backlog
        self.history: list[Update] = []
        self.given: Counter[int] = Counter()
        self.acked: set[int] = set()
        self._pending: list[Update] = []
        self._in_hand: set[int] = set()
        self._polls = 0
        self._there_until = 0.0
        self._changed = asyncio.Event()

    def put(self, update: Update) -> None:
        if self.backlog is Backlog.HISTORY:
            self.history.append(update)
        if self.backlog is Backlog.UNTIL_ACKED or self.listens:
            self._pending.append(update)
        self.wake()

    def put_again(self, update: Update) -> None:
        """The vendor repeats itself."""
        self._pending.append(update)
        self.wake()

    @property
    def listens(self) -> bool:
        """A bot asks, or has asked a moment ago."""
        return bool(self._polls) or asyncio.get_running_loop().time() < self._there_until

    @contextmanager
    def polled(self) -> Iterator[None]:
        """A bot asks: while it does, and for a moment after that, it is there."""
        self._polls += 1
        try:
            yield
        except asyncio.CancelledError:
            self.cut()  # it hung up
            raise
        finally:
            self._polls -= 1
        self.is_there()

    def is_there(self) -> None:
        self._there_until = asyncio.get_running_loop().time() + _GRACE

    def cut(self) -> None:
        """The line is cut: the bot is there again when it asks again."""
        self._there_until = 0.0
        if self.backlog is not Backlog.UNTIL_ACKED:
            self._pending.clear()

    def waiting(self, offset: int) -> list[Update]:
        return [update for update in self._pending if update.id >= offset]

    def give(self, *, offset: int, limit: int) -> list[Update]:
        batch = self.waiting(offset)[:limit]
        self.given.update(update.id for update in batch)
        if self.backlog is Backlog.UNTIL_ACKED:
            self._in_hand.update(update.id for update in batch)
        else:
            ids = {update.id for update in batch}
            self._pending = [update for update in self._pending if update.id not in ids]
        return batch

    def since(self, update_id: int, *, limit: int) -> list[Update]:
        """What came after that one, given or not. Who asks is there: what comes next is given."""
        self.is_there()
        batch = [update for update in self.history if update.id > update_id][:limit]
        self.given.update(update.id for update in batch)
        return batch

    def ack(self, up_to: int) -> list[Update]:
        """Forget what was given up to this id; returns what is acknowledged for the first time.

        What was never given stays, so that a copy of an old update outlives the old
        update's acknowledgement.
        """
        if self.backlog is not Backlog.UNTIL_ACKED:
            self.acked |= {number for number in self.given if number <= up_to}
            return []
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
