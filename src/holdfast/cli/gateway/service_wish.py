"""What an installation is to be: whose supervisor, whose rights, which home, which name."""

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.gateway.services import service_of, supervisors
from holdfast.config import load
from holdfast.config.surroundings import surroundings
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.fitting import MACHINE_HOME, default_home, needed
from holdfast.service.supervisors.keeping import Keeper
from holdfast.service.supervisors.unit import Scope, Unit


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The options as they were given."""

    scope: str | None
    run_as: str | None
    name: str
    force: bool
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is to be there, and whom to tell."""

    unit: Unit
    keeper: Keeper


def plan(wish: Wish, home: Path) -> Plan:
    """What was not said is as it is in the unit that is installed, if there is one."""
    there = service_of(home)
    usual = Scope.USER if os.geteuid() else Scope.SYSTEM
    scope = Scope(wish.scope) if wish.scope else there.scope if there else usual
    name = wish.name or (there.file.stem if there is not None and there.scope is scope else "")
    if wish.run_as and scope is Scope.USER:
        raise HoldfastError("--run-as is for a system unit: a user unit runs as its user.")
    if scope is Scope.SYSTEM and wish.run_as and home == default_home(surroundings()):
        home = MACHINE_HOME
    user, group = _identity(wish.run_as, home) if scope is Scope.SYSTEM else ("", "")
    unit = needed(
        home,
        load(home).settings.gateway,
        environ=surroundings(),
        scope=scope,
        name=name,
        user=user,
        group=group,
    )
    return Plan(unit=unit, keeper=supervisors().keeper(unit.name, scope))


def _identity(run_as: str | None, home: Path) -> tuple[str, str]:
    """Who a system unit's gateway is: who was named, else who owns the home; "": root."""
    try:
        if run_as:
            entry = pwd.getpwnam(run_as)
        elif home.is_dir():
            entry = pwd.getpwuid(home.stat().st_uid)
        else:
            return "", ""
    except KeyError:
        who = run_as or f"number {home.stat().st_uid}"
        raise HoldfastError(
            f"There is no user {who}. Make one (Debian, Ubuntu: useradd --system "
            f"{run_as or 'holdfast'}) or name another with --run-as."
        ) from None
    if entry.pw_uid == 0:
        return "", ""
    return entry.pw_name, grp.getgrgid(entry.pw_gid).gr_name
