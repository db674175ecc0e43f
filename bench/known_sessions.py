"""Measures what a turn costs whose agent has to be built first, with many sessions in the store."""

from dataclasses import dataclass
from itertools import count
from statistics import median

from processes import load
from subjects import Subject

GROUP = 100  # fewer than the cache holds, so that a second visit finds every agent
_group = count(1)


@dataclass(frozen=True, kw_only=True)
class KnownSessions:
    """CPU of the server per turn, in ms, and its resident memory, in MB."""

    new: float  # a session that is not in the store yet
    stored: float  # one in the store whose agent is long gone
    cached: float  # one whose agent is there
    before: float  # memory with all of them known
    after: float  # and once the visits are over


def known_sessions(subject: Subject, *, known: int, visited: int) -> KnownSessions:
    """All sessions send the same and have one exchange in their history, except for the new
    ones, which have no past."""
    _visit(subject, "known.", sessions=known, at_a_time=32)
    before = subject.server.rss_kb() / 1024
    new, stored, cached = [], [], []
    for first in range(0, visited, GROUP):
        name = f"group{next(_group)}."
        new.append(_visit(subject, name))
        cached.append(_visit(subject, name))
        stored.append(_visit(subject, "known.", first=first))
    after = subject.server.rss_kb() / 1024
    return KnownSessions(
        new=median(new), stored=median(stored), cached=median(cached), before=before, after=after
    )


def _visit(
    subject: Subject, prefix: str, *, sessions: int = GROUP, at_a_time: int = 1, first: int = 0
) -> float:
    """Send each session one message; the CPU of one such turn."""
    before = subject.server.cpu_seconds()
    report = load(
        subject.url,
        token=subject.token,
        sessions=sessions,
        turns=1,
        connections=at_a_time,
        prefix=prefix,
        first=first,
    )
    return (subject.server.cpu_seconds() - before) * 1000 / float(report["turns"])
