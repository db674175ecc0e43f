"""A start and a turn cost what `counts.toml` says: statements, transactions, calls, modules."""

from pathlib import Path

import pytest
from tests.bench.counts import (
    Counts,
    Measurement,
    expected_counts,
    measure,
    problems,
    without_minute_statistics,
)


async def test_a_start_and_a_turn_cost_what_is_recorded(tmp_path: Path) -> None:
    found = await measure(tmp_path)
    assert not (text := problems(found, expected=expected_counts())), text


@pytest.mark.parametrize(("turn", "most"), [("telegram stream", 5), ("telegram tool stream", 8)])
def test_a_streamed_reply_needs_few_transactions(turn: str, most: int) -> None:
    """A recorded count may be raised with a reason, but not beyond this."""
    assert expected_counts()["exact"][f"{turn}: transactions"] <= most


EXPECTED = {
    "exact": {"hello: transactions": 3},
    "near": {"modules": 500},
    "close": {"calls": 100},
}


@pytest.mark.parametrize(
    ("section", "counts", "named"),
    [
        ("exact", {"hello: transactions": 4}, "hello: transactions: 3 expected, 4 measured"),
        ("exact", {"hello: transactions": 2}, "hello: transactions: 3 expected, 2 measured"),
        ("near", {"modules": 511}, "modules: 500 expected, 511 measured (within 2%)"),
        ("close", {"calls": 111}, "calls: 100 expected, 111 measured (within 10%)"),
        ("close", {"calls": 89}, "calls: 100 expected, 89 measured"),
        ("close", {}, "calls: 100 expected, not measured"),
        ("close", {"calls": 100, "more": 1}, "more: not in the file, 1 measured"),
    ],
)
def test_a_count_that_differs_is_named_with_both_values_and_the_remedy(
    section: str, counts: Counts, named: str
) -> None:
    found = Measurement(EXPECTED | {section: counts}, {"hello": ["BEGIN", "COMMIT"]})
    text = problems(found, expected=EXPECTED)
    assert named in text
    assert "make counts" in text
    assert "commit message" in text


@pytest.mark.parametrize(
    ("section", "counts"),
    [
        ("near", {"modules": 490}),
        ("near", {"modules": 510}),
        ("close", {"calls": 90}),
        ("close", {"calls": 110}),
        ("exact", {"hello: transactions": 3}),
    ],
)
def test_a_count_may_differ_by_the_tolerance_of_its_section(section: str, counts: Counts) -> None:
    found = Measurement(EXPECTED | {section: counts}, {})
    assert problems(found, expected=EXPECTED) == ""


def test_the_statements_of_a_turn_whose_count_differs_are_listed() -> None:
    counts = EXPECTED | {"exact": {"hello: transactions": 4}}
    found = Measurement(counts, {"hello": ["INSERT 1"], "bye": ["X"]})
    text = problems(found, expected=EXPECTED)
    assert "INSERT 1" in text
    assert "X" not in text.split()


def test_the_transaction_that_ends_a_minute_is_not_of_a_turn() -> None:
    turn = ["BEGIN IMMEDIATE", "INSERT INTO inbox", "COMMIT"]
    minute = ["BEGIN IMMEDIATE", "INSERT INTO minutes (at, body)", "COMMIT"]
    assert without_minute_statistics([*turn, *minute, *turn]) == [*turn, *turn]
