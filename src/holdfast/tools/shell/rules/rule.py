"""Rules: each names one thing that a command may do, how bad it is, and says so to people."""

from collections.abc import Callable

import msgspec

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.run import Deed, Run, Sight, Touch


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # what "always" is remembered by: never changed once released
    level: Level
    why: str  # what the command would do; {part} is the piece that was seen


class RunRule(Rule, frozen=True, kw_only=True):
    programs: frozenset[str]
    sees: Callable[[Run], bool] = lambda run: True


class PathRule(Rule, frozen=True, kw_only=True):
    deeds: frozenset[Deed]
    sees: Callable[[Touch, Ground], bool]


class SightRule(Rule, frozen=True, kw_only=True):
    sight: Sight


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def dry(run: Run) -> bool:
    return not _DRY.isdisjoint(run.args)


_DRY = frozenset(("--dry-run", "--dryrun", "--help", "-h", "--version", "--dry-run=client"))
