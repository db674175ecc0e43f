"""One account's stream of updates: what is kept of it for a bot that is away, and what is not."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.core.ports.capabilities import Backlog
from holdfast.testing.simulated.events import SimulatedUpdate

_POLL_GRACE = 5.0  # seconds between two polls of a bot that is there


class UpdateQueue:
    """Owns what an account has not been given or not acknowledged, and how often each was given.

    `until_acked`: an update is given again and again until it is acknowledged. Else it is given
    once, to a bot that is there; one that is not misses it, and may find it in the `history`.
    """

    def __init__(self, backlog: Backlog = Backlog.UNTIL_ACKED) -> None:
        self.backlog = backlog
        self.history: list[SimulatedUpdate] = []
        self.times_given: Counter[int] = Counter()
        self.acked: set[int] = set()
        self._pending: list[SimulatedUpdate] = []
        self._given_unacked: set[int] = set()
        self._active_polls = 0
        self._present_until = 0.0
        self._changed = asyncio.Event()

    def put(self, update: SimulatedUpdate) -> None:
        if self.backlog is Backlog.HISTORY:
            self.history.append(update)
        if self.backlog is Backlog.UNTIL_ACKED or self.is_polled:
            self._pending.append(update)
        self.wake()

    def repeat(self, update: SimulatedUpdate) -> None:
        """The vendor repeats itself."""
        self._pending.append(update)
        self.wake()

    @property
    def is_polled(self) -> bool:
        """A bot asks, or has asked a moment ago."""
        return bool(self._active_polls) or asyncio.get_running_loop().time() < self._present_until

    @contextmanager
    def polling(self) -> Iterator[None]:
        """A bot asks: while it does, and for a moment after that, it is there."""
        self._active_polls += 1
        try:
            yield
        except asyncio.CancelledError:
            self.cut()  # it hung up
            raise
        finally:
            self._active_polls -= 1
        self.mark_present()

    def mark_present(self) -> None:
        self._present_until = asyncio.get_running_loop().time() + _POLL_GRACE

    def cut(self) -> None:
        """The line is cut: the bot is there again when it asks again."""
        self._present_until = 0.0
        if self.backlog is not Backlog.UNTIL_ACKED:
            self._pending.clear()

    def pending(self, offset: int) -> list[SimulatedUpdate]:
        return [update for update in self._pending if update.id >= offset]

    def next_batch(self, *, offset: int, limit: int) -> list[SimulatedUpdate]:
        batch = self.pending(offset)[:limit]
        self.times_given.update(update.id for update in batch)
        if self.backlog is Backlog.UNTIL_ACKED:
            self._given_unacked.update(update.id for update in batch)
        else:
            ids = {update.id for update in batch}
            self._pending = [update for update in self._pending if update.id not in ids]
        return batch

    def history_since(self, update_id: int, *, limit: int) -> list[SimulatedUpdate]:
        """What came after that one, given or not. Who asks is there: what comes next is given."""
        self.mark_present()
        batch = [update for update in self.history if update.id > update_id][:limit]
        self.times_given.update(update.id for update in batch)
        return batch

    def ack(self, up_to: int) -> list[SimulatedUpdate]:
        """Forget what was given up to this id; returns what is acknowledged for the first time.

        What was never given stays, so that a copy of an old update outlives the old
        update's acknowledgement.
        """
        if self.backlog is not Backlog.UNTIL_ACKED:
            self.acked |= {number for number in self.times_given if number <= up_to}
            return []
        done = [u for u in self._pending if u.id <= up_to and u.id in self._given_unacked]
        first = [update for update in done if update.id not in self.acked]
        ids = {update.id for update in done}
        self._pending = [update for update in self._pending if update.id not in ids]
        self._given_unacked -= ids
        self.acked |= ids
        return first

    def wake(self) -> None:
        self._changed.set()

    async def wait_for_change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
