"""Installed units: where each supervisor has them, and which one is a home's."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from holdfast.service.supervisors.calling import RunProgram, program_caller
from holdfast.service.supervisors.keeping import SupervisorBackend
from holdfast.service.supervisors.systemd import SystemdBackend
from holdfast.service.supervisors.unit import UNIT_NAME, UnitScope


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
            from holdfast.service.supervisors.launchctl import LaunchdBackend  # noqa: PLC0415 - brings XML with it

            return LaunchdBackend(file=file, scope=scope, user_id=self.user_id, run=self.run)
        return SystemdBackend(file=file, scope=scope, run=self.run)

    def _has_program(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", "")) is not None


def supervisor_backends(environ: Mapping[str, str], *, user_id: int) -> SupervisorBackends:
    return SupervisorBackends(environ=environ, user_id=user_id, run=program_caller(environ))
