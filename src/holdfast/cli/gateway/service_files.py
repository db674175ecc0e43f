"""Unit files: written where a supervisor looks for them, compared first, removed only if ours."""

import difflib
import os
import pwd
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from holdfast.cli.common.home import chosen_home
from holdfast.cli.gateway.service_driving import halt
from holdfast.cli.gateway.service_hints import hints
from holdfast.cli.gateway.service_wish import Plan, Wish, plan
from holdfast.cli.gateway.services import NoService, service_of, supervisors
from holdfast.config import prepare_home
from holdfast.config.whole_file import write_whole
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.calling import must
from holdfast.service.supervisors.keeping import Keeper
from holdfast.service.supervisors.unit import Scope
from holdfast.system.paths import Paths, private_dir


def install(wish: Wish) -> None:
    planned = plan(wish, chosen_home())
    keeper, unit = planned.keeper, planned.unit
    wanted = keeper.wanted(unit).decode()
    before = keeper.file.read_text(encoding="utf-8") if keeper.file.is_file() else None
    if before == wanted:
        click.echo(f"{keeper.file} is as it should be; nothing was changed.")
        return
    _refuse_a_second(planned)
    _show(keeper.file, before, wanted, whole=wish.dry_run)
    if wish.dry_run:
        _tell_calls(keeper.after_writing())
        return
    if before is not None and not wish.force:
        raise HoldfastError(
            f"{keeper.file} is there and is different. `holdfast gateway install --force` writes "
            "over it; nothing was changed."
        )
    _must_listen(planned)
    _prepare(planned)
    _write(keeper, wanted)
    click.echo(f"{keeper.file} is installed.")
    for hint in hints(planned):
        click.echo(hint)


def uninstall(home: Path, *, dry_run: bool) -> None:
    keeper = service_of(home)
    if keeper is None:
        raise NoService(home)
    if not keeper.ours():
        raise HoldfastError(
            f"{keeper.file} was not written by `holdfast gateway install`, and is left alone."
        )
    if dry_run:
        _tell_calls([*keeper.before_removing(), ["rm", str(keeper.file)], *keeper.after_removing()])
        return
    halt(home, keeper)
    _call(keeper.before_removing())
    keeper.file.unlink()
    _call(keeper.after_removing())
    click.echo(f"{keeper.file} is removed. {home} and all that is in it stay.")


def _refuse_a_second(planned: Plan) -> None:
    """One home has one unit, and a unit one home: two would fight over either."""
    keeper, unit = planned.keeper, planned.unit
    other = service_of(unit.home)
    if other is not None and other.file != keeper.file:
        raise HoldfastError(
            f"{other.file} keeps this home already. `holdfast gateway uninstall` removes it; "
            f"`--name {other.file.stem}` means it."
        )
    theirs = keeper.home()
    if theirs is not None and theirs != unit.home:
        raise HoldfastError(f"{keeper.file} is for {theirs}. Choose another name with --name.")


def _show(file: Path, before: str | None, wanted: str, *, whole: bool) -> None:
    click.echo(f"{file}:")
    if before is None or whole:
        click.echo(wanted if whole else "", nl=whole)
    if before is not None:
        for line in _difference(before, wanted):
            click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[:1])))


def _difference(before: str, wanted: str) -> Iterator[str]:
    lines = difflib.unified_diff(before.splitlines(), wanted.splitlines(), lineterm="", n=1)
    yield from [*lines][2:]


def _must_listen(planned: Plan) -> None:
    where = supervisors()
    if not (where.launchd or where.systemd):
        raise HoldfastError(
            "Neither systemd nor launchd is here. In a container, `holdfast gateway boot` keeps "
            "the gateway; elsewhere let your supervisor run `holdfast run` and start it again "
            "when it ends with anything but 0 or 78. --dry-run shows the unit all the same."
        )
    if planned.keeper.scope is Scope.SYSTEM and os.geteuid():
        raise HoldfastError("A system unit is installed by root: sudo holdfast gateway install …")
    planned.keeper.listens()


def _prepare(planned: Plan) -> None:
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


def _write(keeper: Keeper, wanted: str) -> None:
    try:
        keeper.file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HoldfastError(f"{keeper.file.parent} cannot be made: {error.strerror}") from None
    write_whole(keeper.file, wanted, mode=0o644)
    _call(keeper.after_writing())


def _call(calls: Sequence[Sequence[str]]) -> None:
    where = supervisors()
    for argv in calls:
        click.echo(f"$ {shlex.join(argv)}")
        must(where.call, argv)


def _tell_calls(calls: Sequence[Sequence[str]]) -> None:
    for argv in calls:
        click.echo(f"$ {shlex.join(argv)}")
