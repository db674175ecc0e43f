"""`make bench`: the gateway and the floor, measured in turn on the same machine, in one table.

It fails only if something does not run or answers wrongly, never because of a time.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from children import BenchFailed, cpu_of, model
from known_sessions import known_sessions
from measures import Pace, Probing, memory_per_session, model_stats, pace, request_bytes, typical
from subjects import HOLDFAST, Subject, floor, gateway
from table import Limit, Row, as_json, render

Open = Callable[..., AbstractContextManager[Subject]]
SLOW_MODEL_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much is measured."""

    rounds: int
    sessions: int  # of a run with 64 at a time
    turns: int
    waiting: int  # sessions on the slow model
    cached: int  # sessions whose memory is measured
    starts: int
    known: int  # sessions in the store
    visited: int  # of them, one after another


FULL = Plan(
    rounds=9,
    sessions=64,
    turns=20,
    waiting=1000,
    cached=2000,
    starts=5,
    known=10_000,
    visited=1000,
)
QUICK = Plan(
    rounds=3, sessions=64, turns=10, waiting=1000, cached=300, starts=2, known=2000, visited=300
)


class Bench:
    """Owns the directory, the subjects' order and the figures as they come in."""

    def __init__(self, plan: Plan, *, directory: Path, subjects: dict[str, Open]) -> None:
        self._plan = plan
        self._directory = directory
        self._subjects = subjects
        self._figures: dict[str, dict[str, float]] = {}

    def run(self) -> list[Row]:
        for measure in (
            self._paces,
            self._slow,
            self._memory,
            self._known,
            self._starts,
            self._version,
        ):
            began = time.perf_counter()
            measure()
            say(f"{measure.__name__.strip('_')} took {time.perf_counter() - began:.0f} s")
        return self._rows()

    def _note(self, figure: str, subject: str, value: float) -> None:
        self._figures.setdefault(figure, {})[subject] = value

    def _paces(self) -> None:
        plan = self._plan
        busy: dict[str, list[Pace]] = {name: [] for name in self._subjects}
        alone: dict[str, list[Pace]] = {name: [] for name in self._subjects}
        with ExitStack() as stack:
            url = stack.enter_context(model(self._directory))
            subjects = [
                stack.enter_context(start(self._directory, model_url=url))
                for start in self._subjects.values()
            ]
            for subject in subjects:
                self._note("request", subject.name, request_bytes(subject, model_url=url))
                pace(subject, sessions=64, turns=2, at_a_time=64)
            for _ in range(plan.rounds):
                for subject in subjects:
                    run = pace(subject, sessions=plan.sessions, turns=plan.turns, at_a_time=64)
                    busy[subject.name].append(run)
                for subject in subjects:
                    run = pace(subject, sessions=10, turns=plan.turns, at_a_time=1)
                    alone[subject.name].append(run)
        for name in self._subjects:
            self._note_pace("64", name, typical(busy[name]))
            self._note_pace("1", name, typical(alone[name]))

    def _note_pace(self, sessions: str, subject: str, found: Pace) -> None:
        self._note(f"cpu {sessions}", subject, found.cpu_ms)
        self._note(f"turns {sessions}", subject, found.turns_per_second)
        self._note(f"p50 {sessions}", subject, found.p50)
        self._note(f"p99 {sessions}", subject, found.p99)

    def _slow(self) -> None:
        for name, start in self._subjects.items():
            with (
                model(self._directory, delay=SLOW_MODEL_SECONDS) as url,
                start(self._directory, model_url=url) as subject,
                Probing(subject) as probing,
            ):
                run = pace(subject, sessions=self._plan.waiting, turns=1, at_a_time=0)
                stats = model_stats(url)
            self._note("slow", name, run.seconds)
            self._note_probes(name, probing, stats=stats)

    def _note_probes(self, name: str, probing: Probing, *, stats: dict[str, float]) -> None:
        """Apart: while all wait for the model, and over the whole run, in which a thousand
        requests come in at once and a thousand answers go out."""
        since, until = stats["last_call_at"], stats["first_call_at"] + SLOW_MODEL_SECONDS
        for probe in probing.subject.probes:
            waiting = probing.longest(probe, since=since, until=until)
            self._note(f"probe {probe}, longest while they wait", name, waiting)
            self._note(f"probe {probe}, longest of the whole run", name, probing.longest(probe))

    def _memory(self) -> None:
        for name, start in self._subjects.items():
            roomy = {"CACHE_MAX_AGENTS": "100000", "CACHE_MAX_MB": "8192"}
            settings = roomy if name == "gateway" else {}
            with (
                model(self._directory) as url,
                start(self._directory, model_url=url, **settings) as subject,
            ):
                time.sleep(1.0)  # whatever a start leaves running has settled
                self._note("idle", name, subject.child.rss_kb() / 1024)
                kb = memory_per_session(subject, sessions=self._plan.cached)
                self._note("agent", name, kb)

    def _known(self) -> None:
        """The cache as it is by default. The figures stand beside each other, not beside the
        floor, which has no agents."""
        if "gateway" not in self._subjects:
            return
        with (
            model(self._directory) as url,
            gateway(self._directory, model_url=url) as subject,
        ):
            found = known_sessions(subject, known=self._plan.known, visited=self._plan.visited)
        self._note("new session", "gateway", found.new)
        self._note("stored session", "gateway", found.stored)
        for figure in ("new session", "stored session"):
            self._note(figure, "floor", found.cached)
        self._note("memory", "gateway", found.after)
        self._note("memory", "floor", found.before)

    def _starts(self) -> None:
        with model(self._directory) as url:
            for name, start in self._subjects.items():
                times = []
                for _ in range(self._plan.starts):
                    with start(self._directory, model_url=url) as subject:
                        times.append(subject.started_in)
                self._note("start", name, statistics.median(times))

    def _version(self) -> None:
        self._note("version", "floor", cpu_of([sys.executable, "-c", ""], times=10))
        if "gateway" in self._subjects:
            self._note("version", "gateway", cpu_of([HOLDFAST, "--version"], times=10))

    def _rows(self) -> list[Row]:
        waiting = f"{self._plan.waiting} sessions on a {SLOW_MODEL_SECONDS:g} s model"
        at_most, ratio = Limit.AT_MOST, Limit.RATIO_AT_MOST
        rows = [
            self._row("64 sessions: CPU per turn", "ms", "cpu 64", ratio, 3, aim="2 ms"),
            self._row(
                "64 sessions: turns", "1/s", "turns 64", Limit.RATIO_AT_LEAST, 1 / 3, aim="400"
            ),
            self._row("64 sessions: latency, median", "ms", "p50 64"),
            self._row("64 sessions: latency, 99 %", "ms", "p99 64"),
            self._row("1 session: CPU per turn", "ms", "cpu 1", ratio, 3),
            self._row("1 session: turns", "1/s", "turns 1"),
            self._row("1 session: latency, median", "ms", "p50 1"),
            self._row(waiting, "s", "slow", ratio, 1.4),
            *self._probe_rows(),
            *self._known_rows(),
            self._row("start to ready", "s", "start", at_most, 0.8),
            self._row("idle, resident", "MB", "idle", at_most, 60),
            self._row("one more cached agent", "kB", "agent", at_most, 50),
            self._row('the request for "hi"', "bytes", "request", at_most, 8000),
            self._row("holdfast --version, CPU", "ms", "version", at_most, 80),
        ]
        return rows

    def _known_rows(self) -> list[Row]:
        if "memory" not in self._figures:
            return []
        cached = Limit.CACHED_AT_MOST
        return [
            self._row(
                f"{self._plan.known:,} known: CPU of a new session's turn",
                "ms",
                "new session",
                cached,
                1.5,
            ),
            self._row("  of one in the store alone", "ms", "stored session", cached, 1.5),
            self._row(
                f"  resident after {self._plan.visited:,} visits",
                "MB",
                "memory",
                Limit.BEFORE_AT_MOST,
                1.05,
            ),
        ]

    def _probe_rows(self) -> list[Row]:
        rows = []
        for name in self._figures:
            if name.startswith("probe "):
                limit = Limit.AT_MOST if name.endswith("wait") else Limit.NONE
                title = f"  {name.removeprefix('probe ')}"
                rows.append(self._row(title, "ms", name, limit, 50))
        return rows

    def _row(
        self,
        name: str,
        unit: str,
        figure: str,
        limit: Limit = Limit.NONE,
        target: float = 0.0,
        *,
        aim: str = "",
    ) -> Row:
        found = self._figures[figure]
        return Row(
            name=name,
            unit=unit,
            gateway=found.get("gateway"),
            floor=found.get("floor"),
            limit=limit,
            target=target,
            aim=aim,
        )


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="less of everything, under a minute")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    parser.add_argument("--floor-only", action="store_true", help="leave the gateway out")
    parser.add_argument("--dir", default=None, help="where the databases go; default: a temporary")
    options = parser.parse_args()
    subjects: dict[str, Open] = {"floor": floor}
    if not options.floor_only:
        subjects["gateway"] = gateway
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="holdfast-bench-") as directory:
        plan = QUICK if options.quick else FULL
        try:
            rows = Bench(plan, directory=Path(directory), subjects=subjects).run()
        except BenchFailed as error:
            sys.exit(f"the benchmark broke: {error}")
    print(as_json(rows) if options.json else render(rows))


if __name__ == "__main__":
    main()
