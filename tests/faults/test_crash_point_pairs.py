"""SIGKILL twice: at a crash point on the way of a message, and at another during the recovery.

The second run gets no new message: what it passes, it passes by recovering. A few pairs, with each
point once as the first and once as the second, are in every test run; all of them in the soak.
"""

import asyncio
from collections.abc import Iterable

import pytest
from tests.faults.conservation import check_invariants, effect_message
from tests.faults.crash_point_groups import LATER_POINTS, Pair, all_pairs, some_pairs
from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint

CONCURRENT_HARNESSES = 3


async def kill_twice(
    new_process_harness: NewProcessHarness, first: CrashPoint, second: CrashPoint
) -> None:
    async with new_process_harness(home=f"{first}-{second}") as process_harness:
        await process_harness.launch(first)
        await process_harness.people.say(effect_message("a"))
        await process_harness.wait_for_crash()
        await process_harness.launch(second)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_invariants(process_harness)


async def kill_in_pairs(new_process_harness: NewProcessHarness, pairs: Iterable[Pair]) -> None:
    slots = asyncio.Semaphore(CONCURRENT_HARNESSES)

    async def run(first: CrashPoint, second: CrashPoint) -> None:
        async with slots:
            try:
                await kill_twice(new_process_harness, first, second)
            except (AssertionError, TimeoutError) as error:
                raise AssertionError(f"{first}, then {second}: {error!r}") from error

    async with asyncio.TaskGroup() as group:
        for pair in pairs:
            group.create_task(run(*pair))


def test_every_run_has_each_crash_point_as_first_and_as_second() -> None:
    firsts, seconds = zip(*some_pairs(), strict=True)
    assert {*firsts} == {*LATER_POINTS}
    assert {*seconds} == {second for _, second in all_pairs()}


@pytest.mark.timeout(240)
async def test_a_crash_in_the_recovery_of_a_crash_loses_nothing_and_repeats_nothing(
    new_process_harness: NewProcessHarness,
) -> None:
    """H1, H2, H3, H4, I2: the second kill comes before the first is recovered from."""
    await kill_in_pairs(new_process_harness, some_pairs())


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_every_pair_of_crashes_loses_nothing_and_repeats_nothing(
    new_process_harness: NewProcessHarness,
) -> None:
    """The same, with every point that can follow the first."""
    await kill_in_pairs(new_process_harness, all_pairs())
