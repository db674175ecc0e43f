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
from pathlib import Path

from figures import Figures
from five_platforms import start_with_five_platforms
from known_sessions import known_sessions
from measures import (
    LoadResult,
    StatusProbe,
    median_result,
    memory_per_session,
    model_stats,
    request_bytes,
    run_load,
)
from plan import FULL, QUICK, SLOW_MODEL_SECONDS, Plan
from platform_turns import platform_turn_costs
from processes import BenchmarkFailed, cpu_of, model
from status_answers import longest_answers
from stops_and_restarts import (
    fill_store,
    restart_seconds,
    restart_with_turns,
    stop_seconds,
    stop_with_turns,
)
from subjects import HOLDFAST, Subject, floor, gateway
from table import BenchRow, as_json, render
from texts import text_costs

Open = Callable[..., AbstractContextManager[Subject]]


class Benchmark:
    """Owns the directory, the subjects' order and the figures as they come in."""

    def __init__(self, plan: Plan, *, directory: Path, subjects: dict[str, Open]) -> None:
        self._plan = plan
        self._directory = directory
        self._subjects = subjects
        self._figures = Figures(plan)
        self._note = self._figures.note

    def run(self) -> list[BenchRow]:
        for measure in (
            self._load,
            self._slow,
            self._memory,
            self._known,
            self._starts,
            self._stops,
            self._restarts,
            self._statuses,
            self._platforms,
            self._texts,
            self._version,
        ):
            began = time.perf_counter()
            measure()
            say(f"{measure.__name__.strip('_')} took {time.perf_counter() - began:.0f} s")
        return self._figures.rows()

    def _load(self) -> None:
        plan = self._plan
        busy: dict[str, list[LoadResult]] = {name: [] for name in self._subjects}
        alone: dict[str, list[LoadResult]] = {name: [] for name in self._subjects}
        with ExitStack() as stack:
            url = stack.enter_context(model(self._directory))
            subjects = [
                stack.enter_context(start(self._directory, model_url=url))
                for start in self._subjects.values()
            ]
            for subject in subjects:
                self._note("request", subject.name, request_bytes(subject, model_url=url))
                run_load(subject, sessions=64, turns=2, at_a_time=64)
            for _ in range(plan.rounds):
                for subject in subjects:
                    run = run_load(subject, sessions=plan.sessions, turns=plan.turns, at_a_time=64)
                    busy[subject.name].append(run)
                for subject in subjects:
                    run = run_load(subject, sessions=10, turns=plan.turns, at_a_time=1)
                    alone[subject.name].append(run)
        for name in self._subjects:
            self._note_result("64", name, median_result(busy[name]))
            self._note_result("1", name, median_result(alone[name]))

    def _note_result(self, sessions: str, subject: str, found: LoadResult) -> None:
        self._note(f"cpu {sessions}", subject, found.cpu_ms)
        self._note(f"turns {sessions}", subject, found.turns_per_second)
        self._note(f"p50 {sessions}", subject, found.p50)
        self._note(f"p99 {sessions}", subject, found.p99)

    def _slow(self) -> None:
        for name, start in self._subjects.items():
            with (
                model(self._directory, delay=SLOW_MODEL_SECONDS) as url,
                start(self._directory, model_url=url) as subject,
                StatusProbe(subject) as probing,
            ):
                run = run_load(subject, sessions=self._plan.waiting, turns=1, at_a_time=0)
                stats = model_stats(url)
            self._note("slow", name, run.seconds)
            self._note_probes(name, probing, stats=stats)

    def _note_probes(self, name: str, probing: StatusProbe, *, stats: dict[str, float]) -> None:
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
                self._note("idle", name, subject.server.rss_kb() / 1024)
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
                times, taken = [], []
                for _ in range(self._plan.starts):
                    with start(self._directory, model_url=url) as subject:
                        taken.append(subject.server.cpu_seconds())
                        times.append(subject.started_in)
                self._note("start", name, statistics.median(times))
                self._note("start cpu", name, statistics.median(taken))

    def _stops(self) -> None:
        if "gateway" not in self._subjects:
            return
        times = []
        with model(self._directory) as url:
            for _ in range(self._plan.starts):
                with gateway(self._directory, model_url=url) as subject:
                    times.append(stop_seconds(subject))
        self._note("stop", "gateway", statistics.median(times))
        with (
            model(self._directory, delay=60.0) as url,
            gateway(self._directory, model_url=url) as subject,
        ):
            self._note(
                "stop interrupted",
                "gateway",
                stop_with_turns(subject, turns=self._plan.interrupted_turns),
            )

    def _restarts(self) -> None:
        if "gateway" not in self._subjects:
            return
        with (
            model(self._directory) as url,
            gateway(self._directory, model_url=url) as subject,
        ):
            fill_store(subject, sessions=self._plan.known)
            self._note("restart", "gateway", restart_seconds(subject))
        with (
            model(self._directory, delay=SLOW_MODEL_SECONDS) as url,
            gateway(self._directory, model_url=url) as subject,
        ):
            turns = self._plan.restarted_turns
            found = restart_with_turns(subject, turns=turns, model_seconds=SLOW_MODEL_SECONDS)
        self._note("restart added median", "gateway", found.added_median)
        self._note("restart added most", "gateway", found.added_most)

    def _statuses(self) -> None:
        if "gateway" not in self._subjects:
            return
        with model(self._directory) as url:
            for state, longest in longest_answers(self._directory, model_url=url).items():
                self._note(f"status {state}", "gateway", longest)

    def _platforms(self) -> None:
        """Telegram beside the simulated platform: the floor has no platforms."""
        if "gateway" not in self._subjects:
            return
        plan = self._plan
        with model(self._directory) as url:
            costs = platform_turn_costs(
                self._directory, model_url=url, rounds=plan.rounds, turns=plan.turns // 2
            )
            started = start_with_five_platforms(self._directory, model_url=url, starts=plan.starts)
        self._note("telegram", "gateway", costs["telegram"])
        self._note("telegram", "floor", costs["simulated"])
        self._note("five platforms", "gateway", started.ready)
        self._note("five connected", "gateway", started.connected)

    def _texts(self) -> None:
        for text, (cost, parsed) in text_costs(rounds=self._plan.rounds).items():
            self._note(f"text {text}", "gateway", cost)
            self._note(f"text {text}", "floor", parsed)

    def _version(self) -> None:
        self._note("version", "floor", cpu_of([sys.executable, "-c", ""], times=10))
        if "gateway" in self._subjects:
            self._note("version", "gateway", cpu_of([HOLDFAST, "--version"], times=10))


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
            rows = Benchmark(plan, directory=Path(directory), subjects=subjects).run()
        except BenchmarkFailed as error:
            sys.exit(f"the benchmark broke: {error}")
    print(as_json(rows) if options.json else render(rows))


if __name__ == "__main__":
    main()
