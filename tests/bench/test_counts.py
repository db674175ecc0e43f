"""A start and a turn cost what `counts.toml` says: statements, transactions, calls, modules."""

from pathlib import Path

import pytest
from tests.bench.counts import (
    TOLERANCE,
    Counts,
    Measurement,
    expected_counts,
    measure,
    problems,
    without_minute_statistics,
)


async def test_a_start_and_a_turn_cost_what_is_recorded(tmp_path: Path) -> None:
    found = await measure(tmp_path)
    exact, close = expected_counts()
    assert not (text := problems(found, exact=exact, close=close)), text


@pytest.mark.parametrize(("turn", "most"), [("telegram stream", 5), ("telegram tool stream", 8)])
def test_a_streamed_reply_needs_few_transactions(turn: str, most: int) -> None:
    """A recorded count may be raised with a reason, but not beyond this."""
    exact, _ = expected_counts()
    assert exact[f"{turn}: transactions"] <= most


CLOSE = {"calls": 100}
EXACT = {"hello: transactions": 3}


@pytest.mark.parametrize(
    ("exact", "close", "named"),
    [
        ({"hello: transactions": 4}, CLOSE, "hello: transactions: 3 expected, 4 measured"),
        ({"hello: transactions": 2}, CLOSE, "hello: transactions: 3 expected, 2 measured"),
        (EXACT, {"calls": 111}, "calls: 100 expected, 111 measured"),
        (EXACT, {"calls": 89}, "calls: 100 expected, 89 measured"),
        (EXACT, {}, "calls: 100 expected, not measured"),
        (EXACT, CLOSE | {"more": 1}, "more: not in the file, 1 measured"),
    ],
)
def test_a_count_that_differs_is_named_with_both_values_and_the_remedy(
    exact: Counts, close: Counts, named: str
) -> None:
    found = Measurement(exact, close, {"hello": ["BEGIN", "COMMIT"]})
    text = problems(found, exact=EXACT, close=CLOSE)
    assert named in text
    assert "make counts" in text
    assert "commit message" in text


@pytest.mark.parametrize("calls", [100 * (1 - TOLERANCE), 100, 100 * (1 + TOLERANCE)])
def test_a_close_count_may_differ_by_the_tolerance(calls: float) -> None:
    found = Measurement(EXACT, {"calls": round(calls)}, {})
    assert problems(found, exact=EXACT, close=CLOSE) == ""


def test_the_statements_of_a_turn_whose_count_differs_are_listed() -> None:
    found = Measurement({"hello: transactions": 4}, CLOSE, {"hello": ["INSERT 1"], "bye": ["X"]})
    text = problems(found, exact=EXACT, close=CLOSE)
    assert "INSERT 1" in text
    assert "X" not in text.split()


def test_the_transaction_that_ends_a_minute_is_not_of_a_turn() -> None:
    turn = ["BEGIN IMMEDIATE", "INSERT INTO inbox", "COMMIT"]
    minute = ["BEGIN IMMEDIATE", "INSERT INTO minutes (at, body)", "COMMIT"]
    assert without_minute_statistics([*turn, *minute, *turn]) == [*turn, *turn]
