"""Examining a home: every check looks, what can be mended is, and all of it is told."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import print_json
from holdfast.cli.doctor.every import CHECKS
from holdfast.cli.doctor.finding import Check, Finding, Level, Patient
from holdfast.config import Config, ConfigError, load
from holdfast.core.errors import HoldfastError
from holdfast.system.lock import HolderHidden, gateway_runs

_MARKS = {Level.OK: ("✓", "green"), Level.WARNING: ("!", "yellow"), Level.PROBLEM: ("✗", "red")}
_NO_HOME = "There is nothing to look at yet: `holdfast run` makes {home}."


def examine(home: Path, *, fix: bool, skip: frozenset[str], as_json: bool) -> bool:
    """True: nothing is wrong that would keep the gateway from its work, or is not any more."""
    wanted = _wanted(skip)
    if not home.is_dir():
        _tell_nothing(_NO_HOME.format(home=home), as_json=as_json)
        return True
    patient = _patient(home)
    told: list[dict[str, Any]] = []
    for check in wanted:
        for finding in _findings(check, patient):
            mended = _mended(finding) if fix else None
            told.append(finding.shown(check.name) | ({} if mended is None else {"fixed": mended}))
            if not as_json:
                _tell(check.name, finding, mended)
    left = [each for each in told if each["level"] == Level.PROBLEM and "fixed" not in each]
    if as_json:
        print_json({"findings": told, "healthy": not left})
    else:
        _sum_up(told, left, fix=fix)
    return not left


def _tell_nothing(note: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"findings": [], "healthy": True, "note": note})
    else:
        click.echo(note)


def _wanted(skip: frozenset[str]) -> list[Check]:
    names = {check.name for check in CHECKS}
    if unknown := sorted(skip - names):
        listed = ", ".join(check.name for check in CHECKS)
        raise click.UsageError(f"There is no check {unknown[0]!r}; there are: {listed}.")
    return [check for check in CHECKS if check.name not in skip]


def _patient(home: Path) -> Patient:
    return Patient(home=home, running=_runs(home), config=_config(home))


def _runs(home: Path) -> bool:
    try:
        return gateway_runs(home)
    except HolderHidden:
        return False  # the check of the lock tells


def _config(home: Path) -> Config | None:
    try:
        return load(home)
    except ConfigError:
        return None  # its own check tells


def _findings(check: Check, patient: Patient) -> Iterator[Finding]:
    """A check that fails is a finding itself, and keeps no other from its turn."""
    try:
        yield from check.look(patient)
    except (HoldfastError, OSError) as error:
        yield Finding(
            level=Level.PROBLEM,
            what=f"This could not be looked at: {error}",
            why="Something else may hide behind it.",
            remedy="Run this as the user who runs the gateway.",
        )


def _mended(finding: Finding) -> str | None:
    if finding.mend is None:
        return None
    try:
        return finding.mend()
    except (HoldfastError, OSError) as error:
        click.echo(f"  It could not be mended: {error}", err=True)
        return None


def _tell(check: str, finding: Finding, mended: str | None) -> None:
    mark, colour = _MARKS[finding.level]
    _told(f"{click.style(mark, fg=colour)} {check:<12} ", finding.what)
    if finding.level is Level.OK:
        return
    if mended is not None:
        _told("    fixed:   ", mended)
        return
    _told("    matters: ", finding.why)
    _told("    do:      ", finding.remedy)


def _told(name: str, text: str) -> None:
    """Lines after the first stand under it, not under its name."""
    click.echo(name + textwrap.indent(safe(text), " " * len(click.unstyle(name))).lstrip())


def _sum_up(told: list[dict[str, Any]], left: list[dict[str, Any]], *, fix: bool) -> None:
    fixable = sum(each["fixable"] for each in told)
    if left:
        problems = "is a problem" if len(left) == 1 else "are problems"
        click.echo(f"\n{len(left)} of {len(told)} findings {problems}.")
    else:
        click.echo("\nNothing keeps the gateway from its work.")
    if fixable and not fix:
        click.echo(f"`holdfast doctor --fix` mends {fixable} of them.")
