"""Hints after an installation: what the person who did it will want to know next."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.cli.gateway.service_wish import Plan
from holdfast.config import ConfigError, load
from holdfast.config.surroundings import surroundings
from holdfast.service.supervisors.fitting import default_home
from holdfast.service.supervisors.unit import Scope

_LINGERING = Path("/var/lib/systemd/linger")
_ALSO_THERE = frozenset({"HOME", "PATH", "LANG", "USER", "LOGNAME", "SHELL"})


def hints(planned: Plan) -> Iterator[str]:
    environ = surroundings()
    unit = planned.unit
    yield from _differences(unit.home, environ)
    yield from _lingering(planned, environ)
    if unit.scope is Scope.SYSTEM and not unit.user:
        yield "It will run as root. `--run-as USER` gives it fewer rights."
    home = "" if unit.home == default_home(environ) else f" --home {shlex.quote(str(unit.home))}"
    yield f"Start it:  holdfast gateway start{home}"


def _differences(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """A service hears nothing of the variables of the shell that installed it."""
    bare = {name: value for name, value in environ.items() if name in _ALSO_THERE}
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


def _lingering(planned: Plan, environ: Mapping[str, str]) -> Iterator[str]:
    unit = planned.unit
    if planned.keeper.file.suffix != ".service":
        return
    who = unit.user or environ.get("USER", "")
    if unit.scope is Scope.SYSTEM and not unit.user:
        return
    if who and not (_LINGERING / who).exists():
        why = (
            "so that commands of agents outlive a restart"
            if unit.scope is Scope.SYSTEM
            else "so that it runs also while you are not logged in"
        )
        yield f"Once, {why}:  loginctl enable-linger {shlex.quote(who)}"
