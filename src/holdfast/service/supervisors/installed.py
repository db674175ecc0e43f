"""Installed units: where each supervisor has them, and which one is a home's."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from holdfast.service.supervisors.calling import Call, caller
from holdfast.service.supervisors.keeping import Keeper
from holdfast.service.supervisors.systemd import Systemd
from holdfast.service.supervisors.unit import NAME, Scope


class Supervision(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisors of this machine, as its environment shows them. Nothing is asked by
    making one."""

    environ: Mapping[str, str]
    user_id: int
    call: Call

    @property
    def launchd(self) -> bool:
        return self._has("launchctl")

    @property
    def systemd(self) -> bool:
        return self._has("systemctl")

    def folder(self, scope: Scope) -> Path:
        """Where a unit of that scope is installed."""
        own = Path(self.environ.get("HOME") or "/")
        if self.launchd:
            return (
                Path("/Library/LaunchDaemons")
                if scope is Scope.SYSTEM
                else own / "Library/LaunchAgents"
            )
        if scope is Scope.SYSTEM:
            # systemd's own variable; the first that it names goes before the others.
            told = self.environ.get("SYSTEMD_UNIT_PATH", "").split(":")[0]
            return Path(told or "/etc/systemd/system")
        config = self.environ.get("XDG_CONFIG_HOME") or own / ".config"
        return Path(config) / "systemd/user"

    def keeper(self, name: str, scope: Scope) -> Keeper:
        """Of the unit with that name, installed or not."""
        return self._keeper(self.folder(scope) / f"{name}{self._suffix}", scope)

    def installed(self) -> Iterator[Keeper]:
        """Every unit that is called like one of ours, a person's own first."""
        for scope in Scope:
            for file in sorted(self.folder(scope).glob(f"{NAME}*{self._suffix}")):
                if file.stem == NAME or file.stem.startswith(f"{NAME}-"):
                    yield self._keeper(file, scope)

    def of(self, home: Path, *, default_home: Path) -> Keeper | None:
        """The unit that keeps this home's gateway. One that names no home has the usual one."""
        for keeper in self.installed():
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

    def _keeper(self, file: Path, scope: Scope) -> Keeper:
        if self.launchd:
            from holdfast.service.supervisors.launchctl import Launchd  # noqa: PLC0415 - brings XML with it

            return Launchd(file=file, scope=scope, user_id=self.user_id, call=self.call)
        return Systemd(file=file, scope=scope, call=self.call)

    def _has(self, program: str) -> bool:
        return shutil.which(program, path=self.environ.get("PATH", "")) is not None


def supervision(environ: Mapping[str, str], *, user_id: int) -> Supervision:
    return Supervision(environ=environ, user_id=user_id, call=caller(environ))
