"""`holdfast doctor`: runs every health check, fixes what can be fixed, and prints the findings."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.language import error_text
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json, sanitize
from holdfast.cli.doctor.finding import ExaminedHome, FindingLevel, HealthCheck, HealthFinding
from holdfast.config import Config, ConfigError, load
from holdfast.config.home import chosen_store
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _, _n
from holdfast.system import exit_codes
from holdfast.system.lock import HolderUnreadable, is_gateway_running
from holdfast.system.paths import Paths


@click.command("doctor")
@home_option
@json_option
@click.option("--fix", is_flag=True, help="Fix what can be fixed without asking.")
@click.option("--skip", multiple=True, metavar="CHECK", help="Skip a check; can be repeated.")
def command(as_json: bool, fix: bool, skip: tuple[str, ...]) -> None:
    """Check the home, its files, the configuration, the database, the sandbox and the model.

    Works with and without a running gateway, and changes nothing without --fix. Calls the model,
    which a provider may charge for; `--skip model` leaves this out. Exits with 1 if there is a
    problem.

    \b
    Examples:
      holdfast doctor
      holdfast doctor --skip model --fix
    """
    healthy = examine(chosen_home(), fix=fix, skip=frozenset(skip), as_json=as_json)
    sys.exit(exit_codes.OK if healthy else exit_codes.FAILED)


_MARKS = {
    FindingLevel.OK: ("✓", "green"),
    FindingLevel.WARNING: ("!", "yellow"),
    FindingLevel.PROBLEM: ("✗", "red"),
}


def examine(home: Path, *, fix: bool, skip: frozenset[str], as_json: bool) -> bool:
    """True: there is no problem, or every problem was fixed."""
    checks = _select_checks(skip)
    if not home.is_dir():
        note = _("There is nothing to check yet: `holdfast run` creates {home}.").format(home=home)
        _print_note(note, as_json=as_json)
        return True
    examined = _load_home(home)
    results: list[dict[str, Any]] = []
    for name, check in checks.items():
        for finding in _run_check(check, examined):
            fixed = _apply_fix(finding) if fix else None
            results.append(finding.as_dict(name) | ({} if fixed is None else {"fixed": fixed}))
            if not as_json:
                _print_finding(name, finding, fixed)
    left = [
        each for each in results if each["level"] == FindingLevel.PROBLEM and "fixed" not in each
    ]
    if as_json:
        print_json({"findings": results, "healthy": not left})
    else:
        _print_summary(results, left, fix=fix)
    return not left


def _print_note(note: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"findings": [], "healthy": True, "note": note})
    else:
        click.echo(note)


def _select_checks(skip: frozenset[str]) -> dict[str, HealthCheck]:
    # Imported here: the checks import every package, which `doctor --help` does not need.
    from holdfast.cli.doctor.checks import CHECKS  # noqa: PLC0415

    if unknown := sorted(skip - CHECKS.keys()):
        listed = ", ".join(CHECKS)
        raise click.UsageError(
            _("There is no check {name!r}. The checks are: {checks}.").format(
                name=unknown[0], checks=listed
            )
        )
    return {name: check for name, check in CHECKS.items() if name not in skip}


def _load_home(home: Path) -> ExaminedHome:
    from holdfast.store.implementations import closed_store  # noqa: PLC0415 - not for --help

    return ExaminedHome(
        home=home,
        running=_gateway_runs(home),
        config=_load_config(home),
        store=closed_store(Paths(home).db, chosen_store()),
    )


def _gateway_runs(home: Path) -> bool:
    try:
        return is_gateway_running(home)
    except HolderUnreadable:
        return False  # reported by the check of the lock


def _load_config(home: Path) -> Config | None:
    try:
        return load(home)
    except ConfigError:
        return None  # reported by its own check


def _run_check(check: HealthCheck, examined: ExaminedHome) -> Iterator[HealthFinding]:
    """A check that fails is a finding itself; the other checks still run."""
    try:
        yield from check(examined)
    except (HoldfastError, OSError) as error:
        yield HealthFinding(
            level=FindingLevel.PROBLEM,
            what=_("This could not be checked: {error}").format(error=error_text(error)),
            why=_("It may hide another problem."),
            remedy=_("Run this command as the user who runs the gateway."),
        )


def _apply_fix(finding: HealthFinding) -> str | None:
    if finding.fix is None:
        return None
    try:
        return finding.fix()
    except (HoldfastError, OSError) as error:
        text = _("This could not be fixed: {error}").format(error=error_text(error))
        click.echo(f"  {text}", err=True)
        return None


def _print_finding(check: str, finding: HealthFinding, fixed: str | None) -> None:
    mark, colour = _MARKS[finding.level]
    _print_indented(f"{click.style(mark, fg=colour)} {check:<12} ", finding.what)
    if not finding.why:
        return
    if fixed is not None:
        _print_indented(f"    {_('fixed:'):<8} ", fixed)
        return
    _print_indented(f"    {_('why:'):<8} ", finding.why)
    _print_indented(f"    {_('fix:'):<8} ", finding.remedy)


def _print_indented(label: str, text: str) -> None:
    """The lines after the first are indented to the text, not to the label."""
    click.echo(label + textwrap.indent(sanitize(text), " " * len(click.unstyle(label))).lstrip())


def _print_summary(
    findings: list[dict[str, Any]], left: list[dict[str, Any]], *, fix: bool
) -> None:
    fixable = sum(each["fixable"] for each in findings)
    click.echo()
    if left:
        text = _n(
            "{n} of {findings} findings is a problem.",
            "{n} of {findings} findings are problems.",
            len(left),
        )
        click.echo(text.format(n=len(left), findings=len(findings)))
    else:
        click.echo(_("No problems found."))
    if fixable and not fix:
        click.echo(_("`holdfast doctor --fix` fixes {n} of them.").format(n=fixable))
