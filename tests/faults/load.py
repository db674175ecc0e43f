"""A load of many chats on a gateway that is killed again and again, and its statistics."""

import asyncio
import random
import time
from collections import Counter

import msgspec
from tests.faults.conservation import StoreContents, effect_message, plain_message
from tests.faults.random_schedule import random_faults, slow_message
from tests.support.process_harness import ProcessHarness

from holdfast.core.messages.inbox import InboxState


class LoadSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The number of chats, the duration, and the intervals of messages and kills."""

    chats: int = 64
    seconds: float = 300.0
    between_kills: float = 5.0
    pause: float = 4.0  # seconds between two messages of one chat, on average


class ChatLoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of a load whose invariants have been checked."""

    seconds: float
    kills: int
    messages: int
    answered: int
    merged: int
    given_up: int
    delivered: int
    marked_repeats: int
    effects: int
    slowest_start: float

    def __str__(self) -> str:
        return (
            f"{self.messages} messages in {self.seconds:.0f} s with {self.kills} kills: "
            f"{self.answered} answered, {self.merged} merged, {self.given_up} given up after three "
            f"interruptions, 0 lost, 0 out of order; {self.delivered} deliveries, "
            f"{self.marked_repeats} of them marked repeats, 0 unmarked; "
            f"{self.effects} effects, each once; slowest start {self.slowest_start:.1f} s"
        )


class ChatLoad:
    """Sends messages in all chats, and kills the gateway at intervals."""

    def __init__(
        self, process_harness: ProcessHarness, rng: random.Random, settings: LoadSettings
    ) -> None:
        self._harness = process_harness
        self._rng = rng
        self._settings = settings
        self._messages_sent = 0
        self._starts: list[float] = []
        self._began = 0.0

    async def run(self) -> None:
        """Until the time is over; then the gateway runs, and answers the remaining messages."""
        await self._start()
        self._began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for number in range(self._settings.chats):
                group.create_task(self._send_messages(f"chat-{number}"))
            group.create_task(self._kill())
        if not self._harness.alive:
            await self._start()

    @property
    def _over(self) -> bool:
        return time.monotonic() - self._began > self._settings.seconds

    async def _start(self) -> None:
        began = time.monotonic()
        await self._harness.start()
        self._starts.append(time.monotonic() - began)

    async def _send_messages(self, chat: str) -> None:
        """Send messages, whether or not a gateway runs."""
        while not self._over:
            await asyncio.sleep(self._rng.uniform(0.0, 2 * self._settings.pause))
            self._messages_sent += 1
            make = self._rng.choice(
                (plain_message, plain_message, plain_message, effect_message, slow_message)
            )
            await self._harness.people.say(make(f"n{self._messages_sent}"), chat=chat)

    async def _kill(self) -> None:
        while not self._over:
            await self._harness.people.set_faults(random_faults(self._rng))
            await asyncio.sleep(self._settings.between_kills)
            await self._harness.kill()
            await self._start()

    def result(self, contents: StoreContents) -> ChatLoadResult:
        ends = Counter(row.state for row in contents.inbox.values())
        return ChatLoadResult(
            seconds=time.monotonic() - self._began,
            kills=len(self._starts) - 1,
            messages=len(contents.ledger.said),
            answered=ends[InboxState.ANSWERED],
            merged=ends[InboxState.MERGED],
            given_up=ends[InboxState.FAILED],
            delivered=len(contents.ledger.sent),
            marked_repeats=sum(sent.outgoing.maybe_repeated for sent in contents.ledger.sent),
            effects=sum(contents.effects.values()),
            slowest_start=max(self._starts),
        )
