"""Random schedules: what is said, which vendor faults occur, and when and where a gateway dies."""

import asyncio
import os
import random

from tests.faults.conservation import Books, effect, plain
from tests.faults.test_crash_points import RECOVERING, STREAMING, WORKING
from tests.support.process_harness import ProcessHarness
from tests.support.rerun_failed import ConservationError

from holdfast.core.messages.inbox import InboxState
from holdfast.testing.simulated.events import Faults

CHATS = ("home", "work", "garden")
GIVEN_UP = "interrupted 3 times"
# Those that come by themselves, without a person or a signal.
POINTS = (*WORKING, *RECOVERING, *STREAMING)
STREAMED = frozenset(STREAMING)  # only where a vendor lets bots edit
TIMES = (1, 1, 1, 2, 3, 5)


def chosen_seed() -> int:
    chosen = os.environ.get("HOLDFAST_SEED")
    return int(chosen) if chosen else random.randrange(10**9)


def slow(name: str) -> str:
    """A message whose command takes a moment, so that a death may find it running."""
    command = f"sleep 0.15; echo {name} >> effects.log"
    return f'do {name} [tool terminal {{"command": "{command}"}}] [then] [text answer to {name}]'


def spoken(name: str) -> str:
    """A message whose answer is said in pieces, so that a death may find it half said."""
    return f"tell {name} [delay 0.02][split 4][text answer to {name}]"


def some_faults(dice: random.Random) -> Faults:
    """What a vendor does to anyone now and then; nothing of it loses what was said."""
    return Faults(
        duplicates=dice.choice((0, 0, 2)),
        delay=dice.choice((0.0, 0.0, 0.05)),
        reorders=dice.choice((0, 0, 1)),
        floods=dice.choice((0, 0, 1)),
        retry_after=0.05,
        lost_receipts=dice.choice((0, 0, 0, 1)),
        lost_messages=dice.choice((0, 0, 0, 1)),
        rejected_edits=dice.choice((0, 0, 1)),
        lost_edits=dice.choice((0, 0, 1)),
    )


def check_failed(books: Books) -> None:
    """F7: only a turn that was cut three times may end without its answer."""
    failed = [row for row in books.inbox.values() if row.state is InboxState.FAILED]
    broken = [f"{row.text!r}: {row.reason}" for row in failed if GIVEN_UP not in row.reason]
    if broken:
        raise ConservationError("\n".join(broken))


class Schedule:
    """Draws the random choices of one harness, and records each gateway run for failure reports."""

    def __init__(
        self,
        process_harness: ProcessHarness,
        dice: random.Random,
        *,
        longest_wait: float,
        edits: bool,
    ) -> None:
        self._world = process_harness
        self._dice = dice
        self._longest_wait = longest_wait
        self._points = [point for point in POINTS if edits or point not in STREAMED]
        self._sayings = (plain, effect, slow, *((spoken, spoken) if edits else ()))
        self._said = 0
        self.lives: list[str] = []

    async def live_and_die(self) -> None:
        """One life: started, spoken to and killed."""
        order = f"{self._dice.choice(self._points)}:{self._dice.choice(TIMES)}"
        early = self._dice.random() < 0.5  # said while nobody is there to hear it
        patience = self._dice.uniform(0.0, self._longest_wait)
        await self._world.people.set_faults(some_faults(self._dice))
        await self._speak(early)
        await self._world.launch(order)
        if await self._world.wait_until_ready():
            await self._speak(not early)
        self.lives.append(f"{order} {await self._death(patience)}")

    async def _speak(self, now: bool) -> None:
        for _ in range(self._dice.randint(1, 2) if now else 0):
            self._said += 1
            say = self._dice.choice(self._sayings)
            await self._world.people.say(say(f"n{self._said}"), chat=self._dice.choice(CHATS))

    async def _death(self, patience: float) -> str:
        """At its point; one that never comes to it is killed at a random instant instead."""
        try:
            async with asyncio.timeout(patience):
                await self._world.wait_for_crash()
            return "reached"
        except TimeoutError:
            await self._world.kill()
            return f"killed after {patience:.2f} s"
