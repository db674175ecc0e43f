"""`make mutants`: each mutant in a copy of the tree, its tests run there, and a table.

Every mutant must be killed. Its tests run without it first: a test that fails anyway proves
nothing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

import msgspec
from tests.mutants.mutants import Mutant, copy_tree, known

_LIMIT = 600.0  # seconds for the tests of one mutant; each test has its own, shorter one
_GREEN, _RED = 0, 1  # what pytest says; anything else is neither


class Verdict(StrEnum):
    """The result for a mutant; each but the first needs a correction."""

    KILLED = "killed"
    SURVIVED = "SURVIVED"
    STALE = "DOES NOT APPLY"
    RED_ANYWAY = "RED ANYWAY"
    NEITHER = "NEITHER RED NOR GREEN"


class Tested(msgspec.Struct, frozen=True, kw_only=True):
    """A run of tests: how it ended, and the end of what it said."""

    code: int
    output: str


class MutantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the table."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    output: str = ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make mutants")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("names", nargs="*", help="only these; all, where none is named")
    options = parser.parse_args()
    chosen = [each for each in known() if not options.names or each.name in options.names]
    with tempfile.TemporaryDirectory(prefix="holdfast-mutants-") as folder:
        rows = run_all(chosen, Path(folder), workers=options.workers)
    alive = [row for row in rows if row.verdict is not Verdict.KILLED]
    for row in alive:
        print(f"\n--- {row.mutant.name}: {row.verdict}\n{row.output}")
    print(f"\n{len(rows) - len(alive)} of {len(rows)} mutants were killed.")
    return 1 if alive or not rows else 0


def run_all(mutants: list[Mutant], folder: Path, *, workers: int) -> list[MutantRow]:
    """Each in turn, so many at a time; a line is printed as soon as it is known."""
    copy_tree(whole := folder / "whole")
    with ThreadPoolExecutor(workers) as pool:
        selections = sorted({each.red for each in mutants})
        found = pool.map(lambda red: test(whole, red), selections)
        green = dict(zip(selections, found, strict=True))
        rows = []
        for row in pool.map(lambda each: judge(each, folder, green[each.red]), mutants):
            print(
                f"{row.verdict:<22} {row.mutant.name:<31} {row.seconds:5.0f} s  {row.mutant.breaks}"
            )
            sys.stdout.flush()
            rows.append(row)
    return rows


def judge(mutant: Mutant, folder: Path, without: Tested) -> MutantRow:
    """Whether its tests notice it; `without`: what they say of the tree as it is."""
    began = time.monotonic()
    if without.code != _GREEN:
        return MutantRow(
            mutant=mutant, verdict=Verdict.RED_ANYWAY, seconds=0.0, output=without.output
        )
    copy_tree(tree := folder / mutant.name)
    if why := mutant.apply(tree):
        return MutantRow(mutant=mutant, verdict=Verdict.STALE, seconds=0.0, output=why)
    tested = test(tree, mutant.red)
    verdict = {_RED: Verdict.KILLED, _GREEN: Verdict.SURVIVED}.get(tested.code, Verdict.NEITHER)
    seconds = time.monotonic() - began
    return MutantRow(mutant=mutant, verdict=verdict, seconds=seconds, output=tested.output)


def test(tree: Path, red: str) -> Tested:
    """The named tests, over the source of that tree, up to the first that fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-m", "not soak", *Mutant.arguments(red)],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_LIMIT,
    )
    return Tested(code=done.returncode, output=done.stdout[-3000:])


if __name__ == "__main__":
    sys.exit(main())
