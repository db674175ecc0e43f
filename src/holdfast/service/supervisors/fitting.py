"""Fitting: the unit that a home needs today, and how an installed one differs from it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.drift import drift
from holdfast.service.supervisors.installed import Supervision
from holdfast.service.supervisors.unit import Scope, Unit, name_for, stop_seconds_needed
from holdfast.system.program import is_set_uid, this_program

MACHINE_HOME = Path("/var/lib/holdfast")  # of a gateway that no person owns


def default_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/") / ".holdfast"


def needed(
    home: Path,
    settings: GatewaySettings,
    *,
    environ: Mapping[str, str],
    scope: Scope,
    name: str = "",
    user: str = "",
    group: str = "",
) -> Unit:
    """The unit that `holdfast gateway install` would write for this home."""
    bwrap = shutil.which("bwrap", path=environ.get("PATH"))
    return Unit(
        name=name_for(home, usual=(default_home(environ), MACHINE_HOME), wanted=name),
        scope=scope,
        home=home,
        program=this_program(),
        stop_seconds=stop_seconds_needed(settings),
        user=user,
        group=group,
        confined=not is_set_uid(bwrap),
    )


def unit_drift(home: Path, settings: GatewaySettings, *, where: Supervision) -> list[str]:
    """What is wrong with the unit that keeps this home's gateway, a sentence each; []: nothing,
    or there is none. Reads a few small files and calls no program."""
    keeper = where.of(home, default_home=default_home(where.environ))
    if keeper is None:
        return []
    unit = needed(home, settings, environ=where.environ, scope=keeper.scope, name=keeper.file.stem)
    return drift(keeper.wrong(unit), unit=unit, file=keeper.file)
