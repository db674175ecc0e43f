"""Finds the installed unit of a home, and compares it with what the configuration needs."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.core.config.settings import GatewaySettings
from holdfast.service.supervisors.backend import RunProgram, SupervisorBackend, program_caller
from holdfast.service.supervisors.drift import describe_drift
from holdfast.service.supervisors.systemd import SystemdBackend
from holdfast.service.supervisors.unit import (
    UNIT_NAME,
    Unit,
    UnitScope,
    stop_seconds_needed,
    unit_name,
)
from holdfast.system.process import holdfast_command, is_setuid


class SupervisorBackends(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisors of this machine, as its environment shows them. Nothing is asked by
    making one."""

    environ: Mapping[str, str]
    user_id: int
    run: RunProgram

    @property
    def launchd(self) -> bool:
        return self._has_program("launchctl")

    @property
    def systemd(self) -> bool:
        return self._has_program("systemctl")

    def unit_dir(self, scope: UnitScope) -> Path:
        """Where a unit of that scope is installed."""
        own = Path(self.environ.get("HOME") or "/")
        if self.launchd:
            return (
                Path("/Library/LaunchDaemons")
                if scope is UnitScope.SYSTEM
                else own / "Library/LaunchAgents"
            )
        if scope is UnitScope.SYSTEM:
            # systemd's own variable; the first that it names goes before the others.
            told = self.environ.get("SYSTEMD_UNIT_PATH", "").split(":")[0]
            return Path(told or "/etc/systemd/system")
        config = self.environ.get("XDG_CONFIG_HOME") or own / ".config"
        return Path(config) / "systemd/user"

    def backend(self, name: str, scope: UnitScope) -> SupervisorBackend:
        """Of the unit with that name, installed or not."""
        return self._backend(self.unit_dir(scope) / f"{name}{self._suffix}", scope)

    def installed_units(self) -> Iterator[SupervisorBackend]:
        """Every unit that is called like one of ours, a person's own first."""
        for scope in UnitScope:
            for file in sorted(self.unit_dir(scope).glob(f"{UNIT_NAME}*{self._suffix}")):
                if file.stem == UNIT_NAME or file.stem.startswith(f"{UNIT_NAME}-"):
                    yield self._backend(file, scope)

    def find_unit(self, home: Path, *, default_home: Path) -> SupervisorBackend | None:
        """The unit that keeps this home's gateway. One that names no home has the usual one."""
        for keeper in self.installed_units():
            try:
                kept = keeper.home() or default_home
            except OSError:
                continue  # somebody else's, and not for us to read
            if kept == home:
                return keeper
        return None

    @property
    def _suffix(self) -> str:
        return ".plist" if self.launchd else ".service"

    def _backend(self, file: Path, scope: UnitScope) -> SupervisorBackend:
        if self.launchd:
            from holdfast.service.supervisors.launchd import LaunchdBackend  # noqa: PLC0415 - brings XML with it

            return LaunchdBackend(file=file, scope=scope, user_id=self.user_id, run=self.run)
        return SystemdBackend(file=file, scope=scope, run=self.run)

    def _has_program(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", "")) is not None


def supervisor_backends(environ: Mapping[str, str], *, user_id: int) -> SupervisorBackends:
    return SupervisorBackends(environ=environ, user_id=user_id, run=program_caller(environ))


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


class UnitDriftCache:
    """Owns what was found last. To look through the folders of units takes hundreds of small
    reads, and each may wait for a busy event loop; to see that nothing changed takes four."""

    def __init__(
        self, home: Path, settings: GatewaySettings, *, backends: SupervisorBackends
    ) -> None:
        self._home = home
        self._settings = settings
        self._backends = backends
        self._files: list[Path] = [backends.unit_dir(scope) for scope in UnitScope]
        self._mtimes: list[int] = []
        self._problems: Sequence[str] = ()

    def drift(self) -> Sequence[str]:
        """A sentence for each thing in which the unit disagrees with the configuration."""
        if [_mtime(file) for file in self._files] != self._mtimes:
            self._refresh()
        return self._problems

    def _refresh(self) -> None:
        keeper = self._backends.find_unit(
            self._home, default_home=default_home(self._backends.environ)
        )
        own = () if keeper is None else _unit_files(keeper.file)
        self._files = [*(self._backends.unit_dir(scope) for scope in UnitScope), *own]
        self._mtimes = [_mtime(file) for file in self._files]
        try:
            self._problems = unit_drift(self._home, self._settings, backends=self._backends)
        except OSError as error:
            self._problems = [f"The unit of this gateway cannot be read: {error}."]


def _unit_files(unit: Path) -> Iterator[Path]:
    """The file, and what `systemctl edit` put over it."""
    over = unit.with_name(f"{unit.name}.d")
    yield from (unit, over, *sorted(over.glob("*.conf")))


def _mtime(file: Path) -> int:
    """When it last did; 0: it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
