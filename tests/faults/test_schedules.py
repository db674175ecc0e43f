"""Random schedules of death, chained: each start is the recovery of what died before it.

A failing run prints its seed; `HOLDFAST_SEED=… pytest tests/faults/test_schedules.py` makes the
same choices again. What the kernel's scheduler did in between, no seed repeats.
"""

import asyncio
import os
import random

import pytest
from tests.faults.conftest import Worlds
from tests.faults.laws import ANSWERED, Books, check_laws, effect, plain
from tests.faults.world import World

from holdfast.core.crash import CrashPoint
from holdfast.core.inbox import InboxState

SCHEDULES = 20
SOAKED = 250  # in each of the runs of `make soak`
RUNS = 12
CHATS = ("home", "work", "garden")
GIVEN_UP = "interrupted 3 times"
LONGEST_WAIT = 3.0


def chosen_seed() -> int:
    chosen = os.environ.get("HOLDFAST_SEED")
    return int(chosen) if chosen else random.randrange(10**9)


class Schedule:
    """Owns the dice: what is said, where it dies, and when."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._dice = random.Random(seed)
        self._said = 0

    async def live_and_die(self) -> str:
        """One life: started, spoken to and killed; returns how, for whoever reads a failure."""
        order = f"{self._dice.choice(list(CrashPoint))}:{self._dice.choice((1, 1, 1, 2, 3, 5))}"
        early = self._dice.random() < 0.5  # said while nobody is there to hear it
        await self._speak(early)
        await self._world.begin(order)
        if await self._world.ready():
            await self._speak(not early)
        return f"{order} {await self._death()}"

    async def _speak(self, now: bool) -> None:
        for _ in range(self._dice.randint(1, 3) if now else 0):
            self._said += 1
            say = self._dice.choice((plain, effect, slow))
            await self._world.people.say(say(f"n{self._said}"), chat=self._dice.choice(CHATS))

    async def _death(self) -> str:
        """At its point; one that never comes to it is killed at a random instant instead."""
        patience = self._dice.uniform(0.0, LONGEST_WAIT)
        try:
            async with asyncio.timeout(patience):
                await self._world.dies()
            return "reached"
        except TimeoutError:
            await self._world.kill()
            return f"killed after {patience:.2f} s"


def slow(name: str) -> str:
    """A message whose command takes a moment, so that a death may find it running."""
    command = f"sleep 0.3; echo {name} >> effects.log"
    return f'do {name} [tool terminal {{"command": "{command}"}}] [then] [text answer to {name}]'


def given_up_for_nothing(books: Books) -> list[str]:
    """F7: only a turn that was cut three times may end without its answer."""
    failed = [row for row in books.inbox.values() if row.state is InboxState.FAILED]
    return [f"{row.text!r}: {row.reason}" for row in failed if GIVEN_UP not in row.reason]


async def run_schedules(worlds: Worlds, seed: int, number: int, *options: str) -> None:
    lives: list[str] = []
    print(f"HOLDFAST_SEED={seed}")
    async with worlds(*options) as world:
        schedule = Schedule(world, seed)
        for _ in range(number):
            lives.append(await schedule.live_and_die())
        try:
            await world.start()
            books = await check_laws(
                world, idempotent=bool(options), ends=ANSWERED | {InboxState.FAILED}
            )
            assert not given_up_for_nothing(books)
        except (AssertionError, TimeoutError) as broken:
            told = "\n".join(lives)
            raise AssertionError(f"HOLDFAST_SEED={seed}\n{told}\n{broken}") from broken


@pytest.mark.timeout(240)
@pytest.mark.parametrize("options", [(), ("--idempotent-send",)], ids=["marked", "idempotent"])
async def test_chained_deaths_lose_nothing_and_repeat_nothing(
    worlds: Worlds, options: tuple[str, ...]
) -> None:
    """G1, G2, G3, H1, H2, H3, H5, I1, I2, F7: whatever the order in which it dies."""
    await run_schedules(worlds, chosen_seed(), SCHEDULES // 2, *options)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", range(RUNS))
async def test_thousands_of_chained_deaths_lose_nothing_and_repeat_nothing(
    worlds: Worlds, run: int
) -> None:
    """The same, for as long as `make soak` is given."""
    options = ("--idempotent-send",) if run % 2 else ()
    await run_schedules(worlds, chosen_seed(), SOAKED, *options)
