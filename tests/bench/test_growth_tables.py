"""The growth tables of bench/README.md are those that were recorded."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
README = (BENCH / "README.md").read_text()


@pytest.fixture(scope="module")
def recorded() -> str:
    program = [sys.executable, BENCH / "growth.py", "--recorded"]
    return subprocess.run(program, capture_output=True, text=True, check=True).stdout.strip()


def test_the_tables_in_the_readme_are_the_recorded_ones(recorded: str) -> None:
    """`make growth ARGS=--record` measures; `make growth ARGS=--recorded` prints what to paste."""
    assert len(re.findall(r"^\| .*\|$", recorded, flags=re.MULTILINE)) > 40
    assert recorded in README


def test_no_cost_grows_faster_than_its_work(recorded: str) -> None:
    """Fix such a cost; the README says that there is none."""
    assert "No cost is known that grows faster than its work." in README
    assert [line for line in recorded.splitlines() if "**faster**" in line] == []
