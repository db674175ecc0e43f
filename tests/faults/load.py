"""A load of many chats on one gateway that is killed again and again, and the figures of it."""

import asyncio
import random
import time
from collections import Counter

import msgspec
from tests.faults.conservation import Books, effect, plain
from tests.faults.random_schedule import slow, some_faults
from tests.support.process_harness import ProcessHarness

from holdfast.core.messages.inbox import InboxState


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How much, how long, and how often it dies."""

    chats: int = 64
    seconds: float = 300.0
    between_kills: float = 5.0
    pause: float = 4.0  # seconds between two messages of one chat, on average


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it; the laws have been checked when these exist."""

    seconds: float
    kills: int
    said: int
    answered: int
    merged: int
    given_up: int
    delivered: int
    marked_repeats: int
    effects: int
    slowest_start: float

    def __str__(self) -> str:
        return (
            f"{self.said} messages in {self.seconds:.0f} s with {self.kills} kills: "
            f"{self.answered} answered, {self.merged} merged, {self.given_up} given up after three "
            f"cuts, 0 lost, 0 out of order; {self.delivered} deliveries, {self.marked_repeats} of "
            f"them marked repeats, 0 unmarked; {self.effects} effects, each once; "
            f"slowest start {self.slowest_start:.1f} s"
        )


class Load:
    """Owns the people of all chats, and the one who kills."""

    def __init__(self, process_harness: ProcessHarness, dice: random.Random, pace: Pace) -> None:
        self._world = process_harness
        self._dice = dice
        self._pace = pace
        self._said = 0
        self._starts: list[float] = []
        self._began = 0.0

    async def run(self) -> None:
        """Until the time is over; then the gateway runs, and has all the rest to do."""
        await self._start()
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(self._pace.chats):
                group.create_task(self._talk(f"chat-{number}"))
            group.create_task(self._kill())
        if not self._world.alive:
            await self._start()

    @property
    def _over(self) -> bool:
        return time.monotonic() - self._began > self._pace.seconds

    async def _start(self) -> None:
        began = time.monotonic()
        await self._world.start()
        self._starts.append(time.monotonic() - began)

    async def _talk(self, chat: str) -> None:
        """Whether or not somebody is there to hear it."""
        while not self._over:
            await asyncio.sleep(self._dice.uniform(0.0, 2 * self._pace.pause))
            self._said += 1
            say = self._dice.choice((plain, plain, plain, effect, slow))
            await self._world.people.say(say(f"n{self._said}"), chat=chat)

    async def _kill(self) -> None:
        while not self._over:
            await self._world.people.set_faults(some_faults(self._dice))
            await asyncio.sleep(self._pace.between_kills)
            await self._world.kill()
            await self._start()

    def figures(self, books: Books) -> Figures:
        ends = Counter(row.state for row in books.inbox.values())
        return Figures(
            seconds=time.monotonic() - self._began,
            kills=len(self._starts) - 1,
            said=len(books.ledger.said),
            answered=ends[InboxState.ANSWERED],
            merged=ends[InboxState.MERGED],
            given_up=ends[InboxState.FAILED],
            delivered=len(books.ledger.sent),
            marked_repeats=sum(sent.outgoing.maybe_repeated for sent in books.ledger.sent),
            effects=sum(books.effects.values()),
            slowest_start=max(self._starts),
        )
