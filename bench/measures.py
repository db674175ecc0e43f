"""The measurements: each takes subjects that run and returns plain figures."""

import json
import math
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from statistics import median

from processes import BenchmarkFailed, load
from subjects import Subject

from holdfast.core.errors import HoldfastError

_round = count(1)


@dataclass(frozen=True, kw_only=True)
class LoadResult:
    """One run of the load against one subject."""

    cpu_ms: float  # of the server, per turn
    turns_per_second: float
    p50: float
    p99: float
    seconds: float


def run_load(subject: Subject, *, sessions: int, turns: int, at_a_time: int) -> LoadResult:
    """Sessions are new in every run, so that each run sees histories of the same length."""
    before = subject.server.cpu_seconds()
    report = load(
        subject.url,
        token=subject.token,
        sessions=sessions,
        turns=turns,
        connections=at_a_time,
        prefix=f"r{next(_round)}.",
    )
    cpu = subject.server.cpu_seconds() - before
    return LoadResult(
        cpu_ms=cpu * 1000 / report["turns"],
        turns_per_second=report["turns_per_second"],
        p50=report["p50"],
        p99=report["p99"],
        seconds=report["seconds"],
    )


def median_result(results: list[LoadResult]) -> LoadResult:
    """The median of each figure. Not the best: a subject whose runs are shorter meets a quiet
    moment of a busy machine more often, and would be flattered by it."""
    return LoadResult(
        cpu_ms=median(p.cpu_ms for p in results),
        turns_per_second=median(p.turns_per_second for p in results),
        p50=median(p.p50 for p in results),
        p99=median(p.p99 for p in results),
        seconds=median(p.seconds for p in results),
    )


@dataclass
class StatusProbe:
    """Asks a subject how it is, again and again, in a thread for each way to ask; keeps when, and
    the ms it took. With one thread for all, a slow answer to one question delayed the next ones:
    whether any was asked in the worst moment was a matter of luck."""

    subject: Subject
    every: float = 0.02
    answers: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    error: Exception | None = None

    def __enter__(self) -> "StatusProbe":
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(probe, self.answers.setdefault(name, [])))
            for name, probe in self.subject.probes.items()
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, probe: Callable[[], object], answers: list[tuple[float, float]]) -> None:
        while not self._over.wait(self.every) and self.error is None:
            began = time.monotonic()
            try:
                probe()
            except (OSError, HoldfastError) as error:
                self.error = error
                return
            answers.append((began, (time.monotonic() - began) * 1000))

    def longest(self, name: str, *, since: float = 0.0, until: float = math.inf) -> float:
        """The longest answer of those asked for between two instants of the monotonic clock."""
        if self.error is not None:
            raise BenchmarkFailed(f"{name} of {self.subject.name} failed: {self.error!r}")
        asked = self.answers.get(name, [])
        return max((took for began, took in asked if since <= began < until), default=math.nan)


def memory_per_session(subject: Subject, *, sessions: int) -> float:
    """kB of resident memory that one more session of one turn adds, once the rest is warm."""
    common = {"turns": 1, "connections": 32}
    load(subject.url, token=subject.token, sessions=200, prefix="warm.", **common)
    before = subject.server.rss_kb()
    load(subject.url, token=subject.token, sessions=sessions, prefix="more.", **common)
    return (subject.server.rss_kb() - before) / sessions


def request_bytes(subject: Subject, *, model_url: str) -> int:
    """Bytes of the model request for a first "hi", as the model server saw it."""
    load(subject.url, token=subject.token, sessions=1, turns=1, prefix="hi.", text="hi")
    return int(model_stats(model_url)["last_bytes"])


def model_stats(model_url: str) -> dict[str, float]:
    with urllib.request.urlopen(model_url.removesuffix("/v1") + "/stats") as answer:
        stats: dict[str, float] = json.load(answer)
    return stats
