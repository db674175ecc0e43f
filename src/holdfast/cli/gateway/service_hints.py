"""Hints after an installation: what the person who did it will want to know next."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.cli.gateway.service_wish import InstallPlan
from holdfast.config import ConfigError, load
from holdfast.config.surroundings import process_environment
from holdfast.service.supervisors.fitting import default_home
from holdfast.service.supervisors.unit import UnitScope

_LINGER_DIR = Path("/var/lib/systemd/linger")
_SERVICE_VARIABLES = frozenset({"HOME", "PATH", "LANG", "USER", "LOGNAME", "SHELL"})


def install_hints(planned: InstallPlan) -> Iterator[str]:
    environ = process_environment()
    unit = planned.unit
    yield from _environment_hints(unit.home, environ)
    yield from _linger_hints(planned, environ)
    if unit.scope is UnitScope.SYSTEM and not unit.user:
        yield "It will run as root. `--run-as USER` gives it fewer rights."
    home = "" if unit.home == default_home(environ) else f" --home {shlex.quote(str(unit.home))}"
    yield f"Start it:  holdfast gateway start{home}"


def _environment_hints(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """A service hears nothing of the variables of the shell that installed it."""
    bare = {name: value for name, value in environ.items() if name in _SERVICE_VARIABLES}
    here = load(home)
    try:
        there = load(home, bare)
    except ConfigError as error:
        yield f"The service would not start, as it does not see this shell's variables: {error}"
        return
    if there.signature != here.signature:
        set_here = [origin for origin in here.origins.values() if origin.startswith("environment")]
        told = ", ".join(sorted(set(set_here))) or "variables of this shell"
        yield f"The service will not see {told}: what it needs goes into {home / '.env'}."


def _linger_hints(planned: InstallPlan, environ: Mapping[str, str]) -> Iterator[str]:
    unit = planned.unit
    if planned.service.file.suffix != ".service":
        return
    who = unit.user or environ.get("USER", "")
    if unit.scope is UnitScope.SYSTEM and not unit.user:
        return
    if who and not (_LINGER_DIR / who).exists():
        why = (
            "so that commands of agents outlive a restart"
            if unit.scope is UnitScope.SYSTEM
            else "so that it runs also while you are not logged in"
        )
        yield f"Once, {why}:  loginctl enable-linger {shlex.quote(who)}"
