"""Random schedules of kills, chained: each start recovers from the kill before it.

The vendor misbehaves meanwhile. A failing chain prints its seed; `HOLDFAST_SEED=… pytest
tests/faults/test_schedules.py` makes the same choices again. No seed repeats what the
kernel's scheduler did in between.
"""

import asyncio
import random

import pytest
from tests.faults.conservation import ANSWERED, check_invariants
from tests.faults.random_schedule import (
    CHAINS,
    EDIT,
    IDEMPOTENT,
    RUNS_PER_CHAIN,
    SOAK_CHAINS,
    SOAK_RUNS_PER_CHAIN,
    SOAK_TESTS,
    VENDORS,
    KillSchedule,
    check_failed_messages,
    chosen_seed,
)
from tests.support.process_harness import NewProcessHarness

from holdfast.core.messages.inbox import InboxState

CONCURRENT_HARNESSES = 3  # two cores, and other tests run on them too
LONGEST_WAIT = 0.5


async def run_chain(
    new_process_harness: NewProcessHarness, seed: int, runs: int, *options: str
) -> None:
    async with new_process_harness(*options, home=f"home-{seed}") as process_harness:
        schedule = KillSchedule(
            process_harness, random.Random(seed), longest_wait=LONGEST_WAIT, edits=EDIT in options
        )
        try:
            for _ in range(runs):
                await schedule.run_and_kill()
            await process_harness.start()
            contents = await check_invariants(
                process_harness,
                idempotent=IDEMPOTENT in options,
                ends=ANSWERED | {InboxState.FAILED},
            )
            check_failed_messages(contents)
        except (AssertionError, TimeoutError) as error:
            history = "\n".join(schedule.runs)
            raise AssertionError(f"HOLDFAST_SEED={seed}\n{history}\n{error!r}") from error


async def run_chains(
    new_process_harness: NewProcessHarness, chains: int, runs: int, *options: str
) -> None:
    """Run chains, a few at a time, with consecutive seeds."""
    first = chosen_seed()
    slots = asyncio.Semaphore(CONCURRENT_HARNESSES)

    async def run(seed: int) -> None:
        async with slots:
            await run_chain(new_process_harness, seed, runs, *options)

    async with asyncio.TaskGroup() as group:
        for number in range(chains):
            group.create_task(run(first + number))


@pytest.mark.timeout(400)
@pytest.mark.parametrize("vendor", VENDORS)
async def test_chained_kills_lose_nothing_and_repeat_nothing(
    new_process_harness: NewProcessHarness, vendor: str
) -> None:
    """G1, G2, G3, H1, H2, H3, H5, I1, I2, I4, F7: for any order of crash points."""
    await run_chains(new_process_harness, CHAINS, RUNS_PER_CHAIN, *VENDORS[vendor])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("run", range(SOAK_TESTS))
async def test_thousands_of_chained_kills_lose_nothing_and_repeat_nothing(
    new_process_harness: NewProcessHarness, run: int
) -> None:
    """The same, for as long as `make soak` is given."""
    options = list(VENDORS.values())[run % len(VENDORS)]
    await run_chains(new_process_harness, SOAK_CHAINS, SOAK_RUNS_PER_CHAIN, *options)
