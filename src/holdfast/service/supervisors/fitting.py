"""Fitting: the unit that a home needs today, and how an installed one differs from it."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.drift import describe_drift
from holdfast.service.supervisors.installed import SupervisorBackends
from holdfast.service.supervisors.unit import Unit, UnitScope, stop_seconds_needed, unit_name
from holdfast.system.program import holdfast_command, is_setuid

SYSTEM_HOME = Path("/var/lib/holdfast")  # of a gateway that no person owns


def default_home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/") / ".holdfast"


def needed_unit(
    home: Path,
    settings: GatewaySettings,
    *,
    environ: Mapping[str, str],
    scope: UnitScope,
    name: str = "",
    user: str = "",
    group: str = "",
) -> Unit:
    """The unit that `holdfast gateway install` would write for this home."""
    bwrap = shutil.which("bwrap", path=environ.get("PATH"))
    return Unit(
        name=unit_name(home, default_homes=(default_home(environ), SYSTEM_HOME), requested=name),
        scope=scope,
        home=home,
        program=holdfast_command(),
        stop_seconds=stop_seconds_needed(settings),
        user=user,
        group=group,
        confined=not is_setuid(bwrap),
    )


def unit_drift(home: Path, settings: GatewaySettings, *, backends: SupervisorBackends) -> list[str]:
    """What is wrong with the unit that keeps this home's gateway, a sentence each; []: nothing,
    or there is none. Reads a few small files and calls no program."""
    keeper = backends.find_unit(home, default_home=default_home(backends.environ))
    if keeper is None:
        return []
    unit = needed_unit(
        home, settings, environ=backends.environ, scope=keeper.scope, name=keeper.file.stem
    )
    return describe_drift(keeper.problems(unit), unit=unit, file=keeper.file)
