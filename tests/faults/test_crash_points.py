"""SIGKILL at every crash point, a new start, and the conservation checks."""

import pytest
from tests.faults.conservation import check_invariants, effect_message, plain_message
from tests.faults.crash_point_groups import (
    APPROVAL_POINTS,
    JOB_POINTS,
    RECOVERY_POINTS,
    SEND_POINTS,
    STOP_POINTS,
    STREAM_POINTS,
    TURN_PASSES,
)
from tests.support.process_harness import NewProcessHarness

from holdfast.core.crash_points import CrashPoint

P = CrashPoint


def test_every_crash_point_has_a_test() -> None:
    assert {
        *TURN_PASSES,
        *RECOVERY_POINTS,
        *APPROVAL_POINTS,
        *JOB_POINTS,
        *STOP_POINTS,
        *STREAM_POINTS,
    } == set(CrashPoint)


@pytest.mark.parametrize(
    "order", [f"{point}:{times}" for point, all_times in TURN_PASSES.items() for times in all_times]
)
async def test_a_gateway_killed_at_work_answers_once_and_repeats_no_effect(
    new_process_harness: NewProcessHarness, order: str
) -> None:
    """G1, G2, G3, H1, H2, H3, H4, H5, I1, I2: a turn with an effect and one without, killed."""
    async with new_process_harness() as process_harness:
        await process_harness.launch(order)  # its first commits are made before it takes messages
        await process_harness.people.say(effect_message("a"), chat="home")
        await process_harness.people.say(plain_message("b"), chat="other")
        await process_harness.wait_for_crash()
        await process_harness.start()
        await process_harness.wait_until_settled()
        await process_harness.people.say(plain_message("c"), chat="home")
        await check_invariants(process_harness)


@pytest.mark.parametrize("point", SEND_POINTS)
async def test_a_vendor_that_knows_the_delivery_id_gets_every_answer_exactly_once(
    new_process_harness: NewProcessHarness, point: CrashPoint
) -> None:
    """I2: an unknown outcome is settled by what the platform can do, however often it occurs."""
    async with new_process_harness("--idempotent-send") as process_harness:
        await process_harness.people.say(effect_message("a"))
        for _ in range(3):
            await process_harness.launch(point)
            await process_harness.wait_for_crash()
        await process_harness.start()
        await check_invariants(process_harness, idempotent=True)


async def test_a_vendor_with_lookup_gets_every_answer_exactly_once(
    new_process_harness: NewProcessHarness,
) -> None:
    """I2: what was sent without a receipt is looked up by the successor, and not sent again."""
    async with new_process_harness("--lookup") as process_harness:
        await process_harness.people.say(effect_message("a"))
        await process_harness.launch(P.SENT)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_invariants(process_harness, idempotent=True)


@pytest.mark.parametrize("point", RECOVERY_POINTS)
async def test_a_gateway_killed_while_it_recovers_loses_nothing(
    new_process_harness: NewProcessHarness, point: CrashPoint
) -> None:
    """H1, H2, H3: twice in a row, the second time before the first is recovered from."""
    async with new_process_harness() as process_harness:
        await process_harness.start(P.CALL_RETURNED)
        await process_harness.people.say(effect_message("a"))
        await process_harness.wait_for_crash()
        await process_harness.launch(point)
        await process_harness.wait_for_crash()
        await process_harness.start()
        await check_invariants(process_harness)
