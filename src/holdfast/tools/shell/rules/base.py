"""The kinds of rules: about a program, about a path, about how a command is written (hazards);
and the hazard rules."""

from collections.abc import Callable

import msgspec

from holdfast.core.people.approval import CommandRisk
from holdfast.core.text.translation import N_
from holdfast.tools.shell.invocation import Hazard, PathAction, PathEffect, ProgramCall
from holdfast.tools.shell.paths import PathLocation


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


HAZARD_RULES = (
    HazardRule(
        name="fork-bomb",
        level=CommandRisk.FORBIDDEN,
        why=N_("It would start itself over and over until the machine no longer responds."),
        hazard=Hazard.FORK_BOMB,
    ),
    HazardRule(
        name="code-from-the-network",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run code from the network without showing it first."),
        hazard=Hazard.NETWORK_CODE,
    ),
    HazardRule(
        name="remote-shell",
        level=CommandRisk.DANGEROUS,
        why=N_("It would connect a shell or its output to another machine."),
        hazard=Hazard.REMOTE_SHELL,
    ),
    HazardRule(
        name="hidden-code",
        level=CommandRisk.DANGEROUS,
        why=N_("It would run encoded code, which hides what it does."),
        hazard=Hazard.HIDDEN_CODE,
    ),
    HazardRule(
        name="hidden-program",
        level=CommandRisk.DANGEROUS,
        why=N_("It hides the name of the program that it runs."),
        hazard=Hazard.HIDDEN_PROGRAM,
    ),
    HazardRule(
        name="unknown-code",
        level=CommandRisk.DANGEROUS,
        why=N_("What it would run is only known when it runs."),
        hazard=Hazard.UNKNOWN_CODE,
    ),
    HazardRule(
        name="foreign-library",
        level=CommandRisk.DANGEROUS,
        why=N_("It would load code from outside the workspace into the programs that it runs."),
        hazard=Hazard.FOREIGN_LIBRARY,
    ),
    HazardRule(
        name="foreign-program",
        level=CommandRisk.DANGEROUS,
        why=N_("It would let a program run a file from a folder that others may write to."),
        hazard=Hazard.FOREIGN_PROGRAM,
    ),
    HazardRule(
        name="foreign-package-index",
        level=CommandRisk.DANGEROUS,
        why=N_("It would install packages from a source other than the public registries."),
        hazard=Hazard.FOREIGN_PACKAGES,
    ),
    HazardRule(
        name="shell-from-a-program",
        level=CommandRisk.DANGEROUS,
        why=N_("It would start a shell from inside another program, where nothing checks it."),
        hazard=Hazard.ESCAPED_SHELL,
    ),
    HazardRule(
        name="code-that-sends-files",
        level=CommandRisk.DANGEROUS,
        why=N_("Its code would send files or settings of this machine to another one."),
        hazard=Hazard.SENT_FILES,
    ),
    HazardRule(
        name="unreadable",
        level=CommandRisk.DANGEROUS,
        why=N_(
            "It cannot be read as a shell command to its end, and names programs that can do harm."
        ),
        hazard=Hazard.UNREADABLE,
    ),
    HazardRule(
        name="too-tangled",
        level=CommandRisk.DANGEROUS,
        why=N_("It is too long or too complex to be analysed completely."),
        hazard=Hazard.TOO_COMPLEX,
    ),
    HazardRule(
        name="too-long",
        level=CommandRisk.FORBIDDEN,
        why=N_(
            "It is longer than 100,000 characters, which a person cannot check. Write it to a file."
        ),
        hazard=Hazard.TOO_LONG,
    ),
)
