"""Finds the installed unit of a home, and compares it with what the configuration needs."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_
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

SYSTEM_HOME = Path("/var/lib/holdfast")  # of a gateway that runs as a system service


class SupervisorBackends(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisors of this machine. Creating one runs no program."""

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
        """The folder of units of that scope."""
        own = Path(self.environ.get("HOME") or "/")
        if self.launchd:
            return (
                Path("/Library/LaunchDaemons")
                if scope is UnitScope.SYSTEM
                else own / "Library/LaunchAgents"
            )
        if scope is UnitScope.SYSTEM:
            # systemd's own variable; its first folder has precedence.
            first = self.environ.get("SYSTEMD_UNIT_PATH", "").split(":")[0]
            return Path(first or "/etc/systemd/system")
        config = self.environ.get("XDG_CONFIG_HOME") or own / ".config"
        return Path(config) / "systemd/user"

    def backend(self, name: str, scope: UnitScope) -> SupervisorBackend:
        """The backend of the unit with that name, installed or not."""
        return self._backend(self.unit_dir(scope) / f"{name}{self._suffix}", scope)

    def installed_units(self) -> Iterator[SupervisorBackend]:
        """Every unit with a name like ours, those of the user first."""
        for scope in UnitScope:
            for file in sorted(self.unit_dir(scope).glob(f"{UNIT_NAME}*{self._suffix}")):
                if file.stem == UNIT_NAME or file.stem.startswith(f"{UNIT_NAME}-"):
                    yield self._backend(file, scope)

    def find_unit(self, home: Path, *, default_home: Path) -> SupervisorBackend | None:
        """The unit of this home's gateway. A unit that names no home has the default one."""
        for backend in self.installed_units():
            try:
                unit_home = backend.home() or default_home
            except OSError:
                continue  # another user's, and not readable
            if unit_home == home:
                return backend
        return None

    @property
    def _suffix(self) -> str:
        return ".plist" if self.launchd else ".service"

    def _backend(self, file: Path, scope: UnitScope) -> SupervisorBackend:
        if self.launchd:
            from holdfast.service.supervisors.launchd import LaunchdBackend  # noqa: PLC0415 - imports XML

            return LaunchdBackend(file=file, scope=scope, user_id=self.user_id, run=self.run)
        return SystemdBackend(file=file, scope=scope, run=self.run)

    def _has_program(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", "")) is not None


def supervisor_backends(environ: Mapping[str, str], *, user_id: int) -> SupervisorBackends:
    return SupervisorBackends(environ=environ, user_id=user_id, run=program_caller(environ))


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


def unit_drift(
    home: Path, settings: GatewaySettings, *, backends: SupervisorBackends
) -> list[Translatable]:
    """The problems of this home's unit, one sentence each; []: none, or there is no unit. Reads a
    few small files and runs no program."""
    backend = backends.find_unit(home, default_home=default_home(backends.environ))
    if backend is None:
        return []
    unit = needed_unit(
        home, settings, environ=backends.environ, scope=backend.scope, name=backend.file.stem
    )
    return describe_drift(backend.problems(unit), unit=unit, file=backend.file)


class UnitDriftCache:
    """Owns the last result. Reading the folders of units takes hundreds of small reads, each of
    which may wait for a busy event loop; checking that nothing has changed takes four."""

    def __init__(
        self, home: Path, settings: GatewaySettings, *, backends: SupervisorBackends
    ) -> None:
        self._home = home
        self._settings = settings
        self._backends = backends
        self._files: list[Path] = [backends.unit_dir(scope) for scope in UnitScope]
        self._mtimes: list[int] = []
        self._problems: Sequence[Translatable] = ()

    def drift(self) -> Sequence[Translatable]:
        """A sentence for each difference between the unit and the configuration."""
        if [_mtime(file) for file in self._files] != self._mtimes:
            self._refresh()
        return self._problems

    def _refresh(self) -> None:
        backend = self._backends.find_unit(
            self._home, default_home=default_home(self._backends.environ)
        )
        own = () if backend is None else _unit_files(backend.file)
        self._files = [*(self._backends.unit_dir(scope) for scope in UnitScope), *own]
        self._mtimes = [_mtime(file) for file in self._files]
        try:
            self._problems = unit_drift(self._home, self._settings, backends=self._backends)
        except OSError as error:
            self._problems = [
                Translatable(
                    N_("The unit of this gateway cannot be read: {error}."), {"error": str(error)}
                )
            ]


def _unit_files(unit: Path) -> Iterator[Path]:
    """The file and its drop-ins (`systemctl edit`)."""
    drop_ins = unit.with_name(f"{unit.name}.d")
    yield from (unit, drop_ins, *sorted(drop_ins.glob("*.conf")))


def _mtime(file: Path) -> int:
    """The time of its last change; 0: it does not exist."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0
