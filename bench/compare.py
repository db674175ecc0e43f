"""Measures this checkout and another one in turn, in one run: `bench/compare.py OTHER_CHECKOUT`.

Both meet the same noise of the machine, so that the ratio of their figures holds where the figures
themselves do not. The other checkout needs its own virtual environment (`make test` creates it).
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from measures import LoadResult, median_result, run_load
from processes import cpu_of, model
from subjects import HOLDFAST, gateway

ROUNDS = 7
STARTS = 5


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
    for name, (other, this) in figures.items():
        print(f"{name:44} {other:9.2f} {this:9.2f}  {this / other:5.2f}")


def compare_turns(
    programs: dict[str, Path], folder: Path, *, rounds: int
) -> dict[str, tuple[float, float]]:
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
    both = {name: (median_result(many[name]), median_result(one[name])) for name in programs}
    (m1, s1), (m2, s2) = both["other"], both["this"]
    return {
        "64 sessions: CPU per turn, ms": (m1.cpu_ms, m2.cpu_ms),
        "64 sessions: turns per second": (m1.turns_per_second, m2.turns_per_second),
        "64 sessions: p99, ms": (m1.p99, m2.p99),
        "1 session: CPU per turn, ms": (s1.cpu_ms, s2.cpu_ms),
        "1 session: p50, ms": (s1.p50, s2.p50),
    }


def compare_starts(programs: dict[str, Path], folder: Path) -> dict[str, tuple[float, float]]:
    cpu: dict[str, list[float]] = {name: [] for name in programs}
    memory: dict[str, list[float]] = {name: [] for name in programs}
    with model(folder) as model_url:
        for _ in range(STARTS):
            for name, program in programs.items():
                with gateway(folder, model_url=model_url, program=program) as subject:
                    cpu[name].append(subject.server.cpu_seconds())
                    memory[name].append(subject.server.rss_kb() / 1000)
    version = {name: cpu_of([program, "--version"], times=10) for name, program in programs.items()}
    return {
        "start: CPU until ready, s": (min(cpu["other"]), min(cpu["this"])),
        "start: resident memory, MB": (
            statistics.median(memory["other"]),
            statistics.median(memory["this"]),
        ),
        "--version: CPU, ms": (version["other"], version["this"]),
    }


if __name__ == "__main__":
    main()
