"""Tests of the waits between attempts."""

import ast
from pathlib import Path

import pytest

import holdfast
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


NAMES_OF_WAITS = ("RETRY", "BACKOFF", "COOL_DOWN", "TRY_AGAIN")


def own_retry_policies(tree: ast.Module) -> bool:
    """Whether a module makes a policy, or has a number for the wait before another attempt."""
    constants = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return any(word in name for name in constants for word in NAMES_OF_WAITS) or any(
        isinstance(each, ast.Name) and each.id == "RetryPolicy" for each in called
    )


def test_all_retry_policies_are_in_one_file() -> None:
    source = Path(holdfast.__file__).parent
    found = {
        file.relative_to(source).as_posix()
        for package in ("core", "models", "agent", "gateway")
        for file in (source / package).rglob("*.py")
        if own_retry_policies(ast.parse(file.read_text()))
    }
    found.remove("core/turns/model.py")  # which faults of a model are retried: no wait
    assert found == {"core/retry.py"}
    assert own_retry_policies(ast.parse("_RETRY_AFTER: float = 30.0"))
    assert own_retry_policies(ast.parse("def f():\n  return RetryPolicy(first=1, longest=1)"))
    assert not own_retry_policies(ast.parse("def f():\n  return LANE_RETRY.wait(0)"))


def test_a_command_is_retried_soon_and_then_answered() -> None:
    """K2: its sender waits for the answer."""
    assert [COMMAND_RETRY.wait(n) for n in range(MAX_COMMAND_RETRIES)] == [0.1, 0.5, 2.0]


def test_the_waits_of_a_very_long_outage_are_numbers() -> None:
    assert CONNECTION_RETRY.wait(100_000) == 300.0


def test_jitter_makes_no_wait_longer_than_the_longest() -> None:
    assert CONNECTION_RETRY.wait(1, jitter=1.25) == 2.5
    assert CONNECTION_RETRY.wait(20, jitter=1.25) == 300.0
    assert CONNECTION_RETRY.wait(20, jitter=0.75) == 300.0
