"""Rules: each names one thing that a command may do, how bad it is, and says so to people."""

from collections.abc import Callable

import msgspec

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.run import Hazard, PathAction, PathEffect, ProgramCall


class ShellRule(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # what "always" is remembered by: never changed once released
    level: CommandRisk
    why: str  # what the command would do; {part} is the piece that was seen


class ProgramRule(ShellRule, frozen=True, kw_only=True):
    programs: frozenset[str]
    matches: Callable[[ProgramCall], bool] = lambda run: True


class PathRule(ShellRule, frozen=True, kw_only=True):
    actions: frozenset[PathAction]
    matches: Callable[[PathEffect, PathLocation], bool]


class HazardRule(ShellRule, frozen=True, kw_only=True):
    hazard: Hazard


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


def is_dry_run(run: ProgramCall) -> bool:
    return not _DRY_RUN_OPTIONS.isdisjoint(run.args)


_DRY_RUN_OPTIONS = frozenset(
    ("--dry-run", "--dryrun", "--help", "-h", "--version", "--dry-run=client")
)
