"""SIGKILL at every crash point there is, a new start, and the laws of conservation."""

import pytest
from tests.faults.conservation import check_laws, effect, plain
from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint

P = CrashPoint

# How often a point is passed before it kills: each is another place in the way of a message.
WORKING: dict[CrashPoint, tuple[int, ...]] = {
    P.ACCEPT_SUBMITTED: (1, 2),
    P.ACCEPT_COMMITTED: (1, 2),
    P.TURN_BEGUN: (1, 2),
    P.MODEL_CALLED: (1, 3),
    P.MODEL_REPLIED: (1, 3),
    P.REPLY_COMMITTED: (1,),
    P.CALL_STARTED: (1,),
    P.CALL_RETURNED: (1,),
    P.CALL_FINISHED: (1,),
    P.END_SUBMITTED: (1, 2),
    P.END_COMMITTED: (1, 2),
    P.ATTEMPT_COMMITTED: (1, 2),
    P.SENT: (1, 2),
    P.RECEIPT_COMMITTED: (1, 2),
    P.BEFORE_COMMIT: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
    P.AFTER_COMMIT: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
}
RECOVERING = (P.RECOVERY_READ, P.RESUME_COMMITTED)
SCHEDULING = (P.RUN_PLANNED, P.RUN_BEGUN)  # in test_kill_jobs.py
ASKING = (P.APPROVAL_ASKED, P.APPROVAL_DECIDED)  # in test_kill_approvals.py
LEAVING = (P.TURN_PARKED, P.TURN_MARKED)  # in test_leave_process.py
STREAMING = (P.STREAM_ROW_COMMITTED, P.EDIT_SENT, P.EDIT_COMMITTED)  # in test_kill_streams.py
SENDING = (P.ATTEMPT_COMMITTED, P.SENT)


def test_every_crash_point_has_a_test() -> None:
    assert {*WORKING, *RECOVERING, *ASKING, *SCHEDULING, *LEAVING, *STREAMING} == set(CrashPoint)


@pytest.mark.parametrize(
    "order", [f"{point}:{times}" for point, all_times in WORKING.items() for times in all_times]
)
async def test_a_gateway_killed_at_work_answers_once_and_repeats_no_effect(
    new_process_harness: NewProcessHarness, order: str
) -> None:
    """G1, G2, G3, H1, H2, H3, H4, H5, I1, I2: a turn with an effect and one without, killed."""
    async with new_process_harness() as process_harness:
        await process_harness.launch(order)  # its first commits are made before it takes messages
        await process_harness.people.say(effect("a"), chat="home")
        await process_harness.people.say(plain("b"), chat="other")
        await process_harness.wait_for_crash()
        await process_harness.start()
        await process_harness.wait_until_settled()
        await process_harness.people.say(plain("c"), chat="home")
        await check_laws(process_harness)


@pytest.mark.parametrize("point", SENDING)
async def test_a_vendor_that_knows_the_delivery_id_gets_every_answer_exactly_once(
    new_process_harness: NewProcessHarness, point: CrashPoint
) -> None:
    """I2: an unknown outcome is settled by what the platform can do, however often it is cut."""
    async with new_process_harness("--idempotent-send") as process_harness:
        await process_harness.people.say(effect("a"))
        for _ in range(3):
            await process_harness.launch(point)
            await process_harness.wait_for_crash()
        await process_harness.start()
        await check_laws(process_harness, idempotent=True)


async def test_a_vendor_that_can_be_asked_gets_every_answer_exactly_once(
    new_process_harness: NewProcessHarness,
) -> None:
    """I2: what was sent without a receipt is looked up by the successor, and not sent again."""
    async with new_process_harness("--lookup") as process_harness:
        await process_harness.people.say(effect("a"))
        await process_harness.launch(P.SENT)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_laws(process_harness, idempotent=True)


@pytest.mark.parametrize("point", RECOVERING)
async def test_a_gateway_killed_while_it_recovers_loses_nothing(
    new_process_harness: NewProcessHarness, point: CrashPoint
) -> None:
    """H1, H2, H3: twice in a row, the second time before the first is made good."""
    async with new_process_harness() as process_harness:
        await process_harness.start(P.CALL_RETURNED)
        await process_harness.people.say(effect("a"))
        await process_harness.wait_for_crash()
        await process_harness.launch(point)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_laws(process_harness)
