"""Random schedules of death, chained: each start is the recovery of what died before it.

The vendor misbehaves meanwhile. A failing chain prints its seed; `HOLDFAST_SEED=… pytest
tests/faults/test_schedules.py` makes the same choices again. What the kernel's scheduler did in
between, no seed repeats.
"""

import asyncio
import random

import pytest
from tests.faults.conservation import ANSWERED, check_laws
from tests.faults.random_schedule import Schedule, check_failed, chosen_seed
from tests.support.process_harness import NewProcessHarness

from holdfast.core.messages.inbox import InboxState

CHAINS = 4  # of each kind of vendor
LIVES = 25  # of each chain: 300 schedules in all
AT_ONCE = 3  # new_process_harness: two cores, and others test on them too
LONGEST_WAIT = 0.5
SOAKED = 30  # chains of each of the runs of `make soak`: 5,400 schedules
SOAKED_LIVES = 30
RUNS = 6
IDEMPOTENT = "--idempotent-send"
EDIT = "--edit"
VENDORS = {"marked": (), "idempotent": (IDEMPOTENT,), "edited": (EDIT, "--edit-interval", "0.02")}


async def run_chain(
    new_process_harness: NewProcessHarness, seed: int, lives: int, *options: str
) -> None:
    async with new_process_harness(*options, home=f"home-{seed}") as process_harness:
        schedule = Schedule(
            process_harness, random.Random(seed), longest_wait=LONGEST_WAIT, edits=EDIT in options
        )
        try:
            for _ in range(lives):
                await schedule.live_and_die()
            await process_harness.start()
            books = await check_laws(
                process_harness,
                idempotent=IDEMPOTENT in options,
                ends=ANSWERED | {InboxState.FAILED},
            )
            check_failed(books)
        except (AssertionError, TimeoutError) as broken:
            told = "\n".join(schedule.lives)
            raise AssertionError(f"HOLDFAST_SEED={seed}\n{told}\n{broken!r}") from broken


async def run_chains(
    new_process_harness: NewProcessHarness, chains: int, lives: int, *options: str
) -> None:
    """So many chains, a few at a time, each with a seed of its own; the first is the chosen one."""
    first = chosen_seed()
    room = asyncio.Semaphore(AT_ONCE)

    async def run(seed: int) -> None:
        async with room:
            await run_chain(new_process_harness, seed, lives, *options)

    async with asyncio.TaskGroup() as group:
        for number in range(chains):
            group.create_task(run(first + number))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("vendor", VENDORS)
async def test_chained_deaths_lose_nothing_and_repeat_nothing(
    new_process_harness: NewProcessHarness, vendor: str
) -> None:
    """G1, G2, G3, H1, H2, H3, H5, I1, I2, I4, F7: whatever the order in which it dies."""
    await run_chains(new_process_harness, CHAINS, LIVES, *VENDORS[vendor])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", range(RUNS))
async def test_thousands_of_chained_deaths_lose_nothing_and_repeat_nothing(
    new_process_harness: NewProcessHarness, run: int
) -> None:
    """The same, for as long as `make soak` is given."""
    options = list(VENDORS.values())[run % len(VENDORS)]
    await run_chains(new_process_harness, SOAKED, SOAKED_LIVES, *options)
