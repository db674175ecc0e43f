"""`kill -9` between the due time of a job, its row, its turn and its delivery."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable

import pytest
from tests.faults.conservation import StoreContents, check_invariants
from tests.support.process_harness import SETTLES_WITHIN, ProcessHarness

from holdfast.core.crash_points import CrashPoint

P = CrashPoint


def job(name: str, when: str = "in 1 second") -> str:
    """A job that writes its name into a file before it answers."""
    call = f'{{"command": "echo {name} >> effects.log"}}'
    return f'/cron add "{when}" do {name} [tool terminal {call}] [then] [text did {name}]'


async def wait_for_answers(process_harness: ProcessHarness, names: Iterable[str]) -> None:
    """Wait until the chats have got the answer of each of these jobs."""
    expected = {f"did {name}" for name in names}
    async with asyncio.timeout(SETTLES_WITHIN):
        while not expected <= {
            one.outgoing.text for one in (await process_harness.people.ledger()).sent
        }:
            await asyncio.sleep(0.03)


def check_answered_once(contents: StoreContents, names: Iterable[str]) -> None:
    """Each job has one run and one answer, besides marked repeats."""
    runs = [row for row in contents.inbox.values() if row.event_id.startswith("house:job.")]
    assert len(runs) == len({row.event_id for row in runs})
    plain = [one.outgoing for one in contents.ledger.sent if not one.outgoing.maybe_repeated]
    answers = Counter((out.chat_id, out.text) for out in plain if out.text.startswith("did "))
    assert answers == {(name, f"did {name}"): 1 for name in names}


# Each run ends at its point, while it handles its own job or the one of the run before.
BEFORE_ITS_TURN = (f"{P.RUN_PLANNED}", f"{P.RUN_BEGUN}", f"{P.TURN_BEGUN}:2")
IN_ITS_TURN = (f"{P.CALL_RETURNED}", f"{P.END_COMMITTED}:2", f"{P.SENT}:2")


@pytest.mark.parametrize("points", [BEFORE_ITS_TURN, IN_ITS_TURN])
async def test_a_job_whose_run_is_killed_runs_once_and_is_reported_once(
    process_harness: ProcessHarness, points: tuple[str, ...]
) -> None:
    """J4: a kill at each instant in turn, chained; each job has its effect and its answer once."""
    names = [f"n{number}" for number in range(len(points))]
    for name, point in zip(names, points, strict=True):
        await process_harness.launch(point)
        await process_harness.people.say(job(name), chat=name)
        await process_harness.wait_for_crash()
    await process_harness.start()
    await wait_for_answers(process_harness, names)
    contents = await check_invariants(process_harness)
    assert Counter(process_harness.effects()) == dict.fromkeys(names, 1)
    check_answered_once(contents, names)


async def test_a_job_that_was_due_while_the_gateway_was_down_runs_at_the_next_start(
    process_harness: ProcessHarness,
) -> None:
    """J4: killed before it was due, and started after."""
    await process_harness.start()
    await process_harness.people.say(job("late"), chat="late")
    await process_harness.wait_until_settled()
    due = time.time() + 1
    await process_harness.kill()
    await process_harness.until(lambda: time.time() > due)
    await process_harness.start()
    await wait_for_answers(process_harness, ["late"])
    contents = await check_invariants(process_harness)
    assert process_harness.effects() == ["late"]
    check_answered_once(contents, ["late"])
