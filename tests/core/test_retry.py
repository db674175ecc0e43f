"""Tests of the waits between attempts."""

import pytest

from holdfast.core.retry import (
    COMMAND_RETRY,
    CONNECTION_RETRY,
    DELIVERY_STATE_RETRY,
    MAX_COMMAND_RETRIES,
    RetryPolicy,
    edit_retry,
)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        (RetryPolicy(first=0.5, longest=3.0), [0.5, 1.0, 2.0, 3.0, 3.0]),
        (DELIVERY_STATE_RETRY, [1.0, 1.0, 1.0]),
        (CONNECTION_RETRY, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0]),
        (edit_retry(1.0), [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 128.0]),
    ],
)
def test_each_wait_is_longer_up_to_the_longest(policy: RetryPolicy, waits: list[float]) -> None:
    assert [policy.wait(failures) for failures in range(len(waits))] == waits


def test_a_command_is_retried_soon_and_then_answered() -> None:
    """K2: its sender waits for the answer."""
    assert [COMMAND_RETRY.wait(n) for n in range(MAX_COMMAND_RETRIES)] == [0.1, 0.5, 2.0]


def test_the_waits_of_a_very_long_outage_are_numbers() -> None:
    assert CONNECTION_RETRY.wait(100_000) == 300.0


def test_jitter_makes_no_wait_longer_than_the_longest() -> None:
    assert CONNECTION_RETRY.wait(1, jitter=1.25) == 2.5
    assert CONNECTION_RETRY.wait(20, jitter=1.25) == 300.0
    assert CONNECTION_RETRY.wait(20, jitter=0.75) == 300.0
