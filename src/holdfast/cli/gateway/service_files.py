"""Unit files: written where a supervisor looks for them, compared first, removed only if ours."""

import difflib
import os
import pwd
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.service_driving import stop_for_removal
from holdfast.cli.gateway.service_hints import install_hints
from holdfast.cli.gateway.service_wish import InstallOptions, InstallPlan, plan_install
from holdfast.cli.gateway.services import ServiceNotInstalled, find_service, find_supervisors
from holdfast.config import prepare_home
from holdfast.config.whole_file import write_atomically
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.calling import run_or_raise
from holdfast.service.supervisors.keeping import SupervisorBackend
from holdfast.service.supervisors.unit import UnitScope
from holdfast.system.paths import Paths, private_dir


def install_service(options: InstallOptions) -> None:
    planned = plan_install(options, chosen_home())
    keeper, unit = planned.service, planned.unit
    wanted = keeper.render(unit).decode()
    before = keeper.file.read_text(encoding="utf-8") if keeper.file.is_file() else None
    if before == wanted:
        click.echo(f"{keeper.file} is as it should be; nothing was changed.")
        return
    _refuse_second_unit(planned)
    _print_unit(keeper.file, before, wanted, whole=options.dry_run)
    if options.dry_run:
        _print_commands(keeper.commands_after_install())
        return
    if before is not None and not options.force:
        raise HoldfastError(
            f"{keeper.file} is there and is different. `holdfast gateway install --force` writes "
            "over it; nothing was changed."
        )
    _require_supervisor(planned)
    _prepare_home_dirs(planned)
    _write_unit(keeper, wanted)
    click.echo(f"{keeper.file} is installed.")
    for hint in install_hints(planned):
        click.echo(hint)


def uninstall_service(home: Path, *, dry_run: bool) -> None:
    keeper = find_service(home)
    if keeper is None:
        raise ServiceNotInstalled(home)
    if not keeper.is_ours():
        raise HoldfastError(
            f"{keeper.file} was not written by `holdfast gateway install`, and is left alone."
        )
    if dry_run:
        _print_commands(
            [
                *keeper.commands_before_removal(),
                ["rm", str(keeper.file)],
                *keeper.commands_after_removal(),
            ]
        )
        return
    stop_for_removal(home, keeper)
    _run_commands(keeper.commands_before_removal())
    keeper.file.unlink()
    _run_commands(keeper.commands_after_removal())
    click.echo(f"{keeper.file} is removed. {home} and all that is in it stay.")


def _refuse_second_unit(planned: InstallPlan) -> None:
    """One home has one unit, and a unit one home: two would fight over either."""
    keeper, unit = planned.service, planned.unit
    other = find_service(unit.home)
    if other is not None and other.file != keeper.file:
        raise HoldfastError(
            f"{other.file} keeps this home already. `holdfast gateway uninstall` removes it; "
            f"`--name {other.file.stem}` means it."
        )
    theirs = keeper.home()
    if theirs is not None and theirs != unit.home:
        raise HoldfastError(f"{keeper.file} is for {theirs}. Choose another name with --name.")


def _print_unit(file: Path, before: str | None, content: str, *, whole: bool) -> None:
    click.echo(f"{file}:")
    if before is None or whole:
        click.echo(content if whole else "", nl=whole)
    if before is not None:
        for line in _diff_lines(before, content):
            click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[:1])))


def _diff_lines(before: str, content: str) -> Iterator[str]:
    lines = difflib.unified_diff(before.splitlines(), content.splitlines(), lineterm="", n=1)
    yield from [*lines][2:]


def _require_supervisor(planned: InstallPlan) -> None:
    where = find_supervisors()
    if not (where.launchd or where.systemd):
        raise HoldfastError(
            "Neither systemd nor launchd is here. In a container, `holdfast gateway boot` keeps "
            "the gateway; elsewhere let your supervisor run `holdfast run` and start it again "
            "when it ends with anything but 0 or 78. --dry-run shows the unit all the same."
        )
    if planned.service.scope is UnitScope.SYSTEM and os.geteuid():
        raise HoldfastError("A system unit is installed by root: sudo holdfast gateway install …")
    planned.service.check_available()


def _prepare_home_dirs(planned: InstallPlan) -> None:
    """The home is there and its gateway's own, with a folder for what a supervisor writes."""
    home, user = planned.unit.home, planned.unit.user
    # What is there already is as its owner wants it, who may be another than who installs.
    missing = [folder for folder in (home, Paths(home).logs) if not folder.exists()]
    if home in missing:
        prepare_home(home)
    owner = pwd.getpwnam(user) if user else None
    for folder in missing:
        private_dir(folder)
        if owner is not None:
            os.chown(folder, owner.pw_uid, owner.pw_gid)


def _write_unit(service: SupervisorBackend, content: str) -> None:
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"{service.file.parent} cannot be made: {error.strerror}") from None
    write_atomically(service.file, content, mode=0o644)
    _run_commands(service.commands_after_install())


def _run_commands(commands: Sequence[Sequence[str]]) -> None:
    where = find_supervisors()
    for argv in commands:
        click.echo(f"$ {shlex.join(argv)}")
        run_or_raise(where.run, argv)


def _print_commands(commands: Sequence[Sequence[str]]) -> None:
    for argv in commands:
        click.echo(f"$ {shlex.join(argv)}")
