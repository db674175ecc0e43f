"""The types of a health check: the examined home, a finding with its remedy, and a check.

A file of its own, so that `doctor --help` does not import the checks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from holdfast.config import Config
from holdfast.core.ops.status import Problem
from holdfast.core.ports.store import ClosedStore
from holdfast.system.paths import Paths


class FindingLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it works, and could be better
    PROBLEM = "problem"  # something does not work, or is not safe


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """`fix` does what is safe to do without asking, and returns a description of what it did."""

    level: FindingLevel
    what: str
    why: str = ""
    remedy: str = ""
    fix: Callable[[], str] | None = None

    def as_dict(self, check: str) -> dict[str, Any]:
        return {
            "check": check,
            "level": self.level,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
            "fixable": self.fix is not None,
        }


def ok_finding(what: str) -> HealthFinding:
    return HealthFinding(level=FindingLevel.OK, what=what)


def problem_finding(problem: Problem) -> HealthFinding:
    """A problem of the status as a finding."""
    level = FindingLevel(problem.level.value)
    return HealthFinding(level=level, what=problem.what, remedy=problem.remedy)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedHome:
    """The home that is examined. `running`: a gateway holds it, and is asked instead of its files.
    `config` None: it cannot be read, which its own check reports."""

    home: Path
    running: bool
    config: Config | None
    store: ClosedStore

    @property
    def paths(self) -> Paths:
        return Paths(self.home)


HealthCheck = Callable[[ExaminedHome], Iterable[HealthFinding]]
"""Changes nothing; a change is the `fix` of a finding."""
