"""Measures this checkout and another one in turn, in one run: `bench/compare.py OTHER_CHECKOUT`.

Both meet the same noise of the machine, so that the ratio of their figures holds where the figures
themselves do not. A ratio is the median of the ratios of all rounds. The other checkout needs its
own virtual environment (`make test` creates it).
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from measures import LoadResult, run_load
from processes import cpu_of, model
from subjects import HOLDFAST, gateway

ROUNDS = 7
STARTS = 5
Rounds = dict[str, list[float]]  # one figure of each program, round by round


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    programs = {
        "other": options.other.resolve() / ".venv" / "bin" / "holdfast",
        "this": HOLDFAST,
    }
    with tempfile.TemporaryDirectory(prefix="holdfast-compare-") as folder:
        figures = {
            **compare_turns(programs, Path(folder), rounds=options.rounds),
            **compare_starts(programs, Path(folder)),
        }
    print(f"{'':44} {'other':>9} {'this':>9}  ratio")
    for name, figure in figures.items():
        other, this = figure["other"], figure["this"]
        ratio = statistics.median(b / a for a, b in zip(other, this, strict=True))
        medians = f"{statistics.median(other):9.2f} {statistics.median(this):9.2f}"
        print(f"{name:44} {medians}  {ratio:5.2f}")


def compare_turns(programs: dict[str, Path], folder: Path, *, rounds: int) -> dict[str, Rounds]:
    many: dict[str, list[LoadResult]] = {name: [] for name in programs}
    one: dict[str, list[LoadResult]] = {name: [] for name in programs}
    with (
        model(folder) as model_url,
        gateway(folder, model_url=model_url, program=programs["other"]) as other,
        gateway(folder, model_url=model_url, program=programs["this"]) as this,
    ):
        subjects = {"other": other, "this": this}
        for subject in subjects.values():  # warm up
            run_load(subject, sessions=64, turns=5, at_a_time=64)
        for number in range(rounds):
            order = list(subjects) if number % 2 else list(subjects)[::-1]
            for name in order:
                many[name].append(run_load(subjects[name], sessions=64, turns=20, at_a_time=64))
                one[name].append(run_load(subjects[name], sessions=10, turns=20, at_a_time=1))
    return {
        "64 sessions: CPU per turn, ms": _figures(many, "cpu_ms"),
        "64 sessions: turns per second": _figures(many, "turns_per_second"),
        "64 sessions: p99, ms": _figures(many, "p99"),
        "1 session: CPU per turn, ms": _figures(one, "cpu_ms"),
        "1 session: turns per second": _figures(one, "turns_per_second"),
        "1 session: p50, ms": _figures(one, "p50"),
    }


def _figures(results: dict[str, list[LoadResult]], field: str) -> Rounds:
    return {name: [getattr(result, field) for result in each] for name, each in results.items()}


def compare_starts(programs: dict[str, Path], folder: Path) -> dict[str, Rounds]:
    cpu: Rounds = {name: [] for name in programs}
    memory: Rounds = {name: [] for name in programs}
    version: Rounds = {name: [] for name in programs}
    with model(folder) as model_url:
        for _ in range(STARTS):
            for name, program in programs.items():
                with gateway(folder, model_url=model_url, program=program) as subject:
                    cpu[name].append(subject.server.cpu_seconds())
                    memory[name].append(subject.server.rss_kb() / 1000)
                version[name].append(cpu_of([program, "--version"], times=2))
    return {
        "start: CPU until ready, s": cpu,
        "start: resident memory, MB": memory,
        "--version: CPU, ms": version,
    }


if __name__ == "__main__":
    main()
