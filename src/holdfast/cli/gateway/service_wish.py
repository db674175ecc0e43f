"""What an installation is to be: whose supervisor, whose rights, which home, which name."""

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.gateway.services import find_service, find_supervisors
from holdfast.config import load
from holdfast.config.surroundings import process_environment
from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.fitting import SYSTEM_HOME, default_home, needed_unit
from holdfast.service.supervisors.keeping import SupervisorBackend
from holdfast.service.supervisors.unit import Unit, UnitScope


@dataclass(frozen=True, kw_only=True)
class InstallOptions:
    """The options as they were given."""

    scope: str | None
    run_as: str | None
    name: str
    force: bool
    dry_run: bool


@dataclass(frozen=True, kw_only=True)
class InstallPlan:
    """What is to be there, and whom to tell."""

    unit: Unit
    service: SupervisorBackend


def plan_install(options: InstallOptions, home: Path) -> InstallPlan:
    """What was not said is as it is in the unit that is installed, if there is one."""
    there = find_service(home)
    usual = UnitScope.USER if os.geteuid() else UnitScope.SYSTEM
    scope = UnitScope(options.scope) if options.scope else there.scope if there else usual
    name = options.name or (there.file.stem if there is not None and there.scope is scope else "")
    if options.run_as and scope is UnitScope.USER:
        raise HoldfastError("--run-as is for a system unit: a user unit runs as its user.")
    if scope is UnitScope.SYSTEM and options.run_as and home == default_home(process_environment()):
        home = SYSTEM_HOME
    user, group = _resolve_user(options.run_as, home) if scope is UnitScope.SYSTEM else ("", "")
    unit = needed_unit(
        home,
        load(home).settings.gateway,
        environ=process_environment(),
        scope=scope,
        name=name,
        user=user,
        group=group,
    )
    return InstallPlan(unit=unit, service=find_supervisors().backend(unit.name, scope))


def _resolve_user(run_as: str | None, home: Path) -> tuple[str, str]:
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
