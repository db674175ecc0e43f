"""The types of a health check: the home it examines, a finding with its remedy, and the protocol of a check."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from holdfast.config import Config
from holdfast.system.paths import Paths


class FindingLevel(StrEnum):
    OK = "ok"
    WARNING = "warning"  # it works, and could be better
    PROBLEM = "problem"  # something does not work, or is not safe


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthFinding:
    """`mend` does what is safe to do without asking, and says what it did."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedHome:
    """The home that is looked at. `running`: a gateway has it, and is asked instead of its
    files. `config` None: it cannot be read, which its own check tells."""

    home: Path
    running: bool
    config: Config | None

    @property
    def paths(self) -> Paths:
        return Paths(self.home)


class HealthCheck(Protocol):
    name: str

    def run(self, examined: ExaminedHome) -> Iterable[HealthFinding]:
        """Changes nothing; what is to be changed is a finding's `mend`."""
        ...
