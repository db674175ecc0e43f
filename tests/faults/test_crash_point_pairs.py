"""SIGKILL twice: at a point on the way of a message, and at another while that is made good.

The second life hears nothing new: what it comes to, it comes to by recovering. A few pairs, with
each point once as the first and once as the second, run in every run; all of them in the soak.
"""

import asyncio
from collections.abc import Iterable, Iterator

import pytest
from tests.faults.conservation import check_laws, effect
from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint

P = CrashPoint
Pair = tuple[CrashPoint, CrashPoint]

AT_ONCE = 3

SENDING = (P.ATTEMPT_COMMITTED, P.SENT, P.RECEIPT_COMMITTED)
ENDING = (P.END_SUBMITTED, P.END_COMMITTED, *SENDING)
ASKING = (P.MODEL_CALLED, P.MODEL_REPLIED, *ENDING)
CALLING = (P.CALL_RETURNED, P.CALL_FINISHED, *ASKING)
BEGUN = (P.REPLY_COMMITTED, P.CALL_STARTED, *CALLING)
TAKEN = (P.ACCEPT_SUBMITTED, P.ACCEPT_COMMITTED, P.TURN_BEGUN, *BEGUN)
ALWAYS = (P.RECOVERY_READ, P.BEFORE_COMMIT, P.AFTER_COMMIT)

# What is still to come where a life ended at the first; nothing that a faster disk would skip.
STILL_TO_COME: dict[CrashPoint, tuple[CrashPoint, ...]] = {
    P.ACCEPT_SUBMITTED: TAKEN,
    P.ACCEPT_COMMITTED: TAKEN,
    P.TURN_BEGUN: BEGUN,
    P.MODEL_CALLED: BEGUN,
    P.MODEL_REPLIED: BEGUN,
    P.REPLY_COMMITTED: (P.RESUME_COMMITTED, P.CALL_STARTED, *CALLING),
    P.CALL_STARTED: (P.RESUME_COMMITTED, *CALLING),
    P.CALL_RETURNED: (P.RESUME_COMMITTED, *CALLING),
    P.CALL_FINISHED: (P.RESUME_COMMITTED, *ASKING),
    P.END_SUBMITTED: SENDING,
    P.END_COMMITTED: SENDING,
    P.ATTEMPT_COMMITTED: SENDING,
    P.SENT: SENDING,
    P.RECEIPT_COMMITTED: (),
}


def all_pairs() -> Iterator[Pair]:
    for first, seconds in STILL_TO_COME.items():
        for second in (*ALWAYS, *seconds):
            yield first, second


def some_pairs() -> list[Pair]:
    """The fewest that a walk over the table finds: each first once, and each second once."""
    chosen: list[Pair] = []
    seen: set[CrashPoint] = set()
    for first, seconds in sorted(STILL_TO_COME.items(), key=lambda item: len(item[1])):
        fresh = [each for each in (*seconds, *ALWAYS) if each not in seen]
        seen.add(second := (fresh or [*seconds, *ALWAYS])[0])
        chosen.append((first, second))
    missing = {second for _, second in all_pairs()} - seen
    return chosen + [(P.ACCEPT_SUBMITTED, second) for second in sorted(missing)]


async def die_twice(
    new_process_harness: NewProcessHarness, first: CrashPoint, second: CrashPoint
) -> None:
    async with new_process_harness(home=f"{first}-{second}") as process_harness:
        await process_harness.launch(first)
        await process_harness.people.say(effect("a"))
        await process_harness.wait_for_crash()
        await process_harness.launch(second)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_laws(process_harness)


async def die_in_pairs(new_process_harness: NewProcessHarness, pairs: Iterable[Pair]) -> None:
    room = asyncio.Semaphore(AT_ONCE)

    async def run(first: CrashPoint, second: CrashPoint) -> None:
        async with room:
            try:
                await die_twice(new_process_harness, first, second)
            except (AssertionError, TimeoutError) as broken:
                raise AssertionError(f"{first}, then {second}: {broken!r}") from broken

    async with asyncio.TaskGroup() as group:
        for pair in pairs:
            group.create_task(run(*pair))


def test_each_point_of_the_way_is_a_first_and_a_second_in_every_run() -> None:
    firsts, seconds = zip(*some_pairs(), strict=True)
    assert {*firsts} == {*STILL_TO_COME}
    assert {*seconds} == {second for _, second in all_pairs()}


@pytest.mark.timeout(240)
async def test_a_crash_in_the_recovery_of_a_crash_loses_nothing_and_repeats_nothing(
    new_process_harness: NewProcessHarness,
) -> None:
    """H1, H2, H3, H4, I2: the second kill falls before the first is made good."""
    await die_in_pairs(new_process_harness, some_pairs())


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_every_pair_of_crashes_loses_nothing_and_repeats_nothing(
    new_process_harness: NewProcessHarness,
) -> None:
    """The same, with all that can follow each point."""
    await die_in_pairs(new_process_harness, all_pairs())
