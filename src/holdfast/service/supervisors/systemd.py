"""systemctl: a unit of systemd's, asked for and told about through its own program."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.service.supervisors import systemd_unit, unit_file
from holdfast.service.supervisors.calling import Call, must
from holdfast.service.supervisors.drift import Wrong, wrong
from holdfast.service.supervisors.keeping import Kept
from holdfast.service.supervisors.unit import Scope, Unit

_ASKED = "ActiveState,SubState,MainPID,NRestarts,UnitFileState"
_VERSION = re.compile(r"systemd (\d+)")


class Systemd(msgspec.Struct, frozen=True, kw_only=True):
    """`keeping.Keeper` for one unit file, of a person's systemd or of the machine's."""

    file: Path
    scope: Scope
    call: Call

    @property
    def name(self) -> str:
        return self.file.name

    def start(self) -> None:
        must(self.call, self._systemctl("start", self.name), advice=self._advice())

    def stop(self) -> None:
        must(self.call, self._systemctl("stop", self.name), advice=self._advice())

    def restart(self) -> None:
        must(self.call, self._systemctl("restart", self.name), advice=self._advice())

    def kept(self) -> Kept:
        said = must(self.call, self._systemctl("show", self.name, f"--property={_ASKED}")).out
        facts = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        state = facts.get("ActiveState", "unknown")
        return Kept(
            state=f"{state} ({facts.get('SubState', 'unknown')})",
            in_hand=state in ("active", "activating", "deactivating", "reloading"),
            failed=state == "failed",
            pid=_number(facts.get("MainPID")),
            restarts=_number(facts.get("NRestarts")),
            at_boot=facts.get("UnitFileState", "").startswith("enabled"),
        )

    def version(self) -> int:
        """Of systemd; 0: it does not say."""
        found = _VERSION.search(self.call(["systemctl", "--version"]).out)
        return int(found[1]) if found else 0

    def listens(self) -> None:
        must(
            self.call,
            self._systemctl("show", "--property=Version"),
            advice="systemd does not run here, or not for this user. In a container, `holdfast "
            "gateway boot` keeps the gateway.",
        )

    def wanted(self, unit: Unit) -> bytes:
        return systemd_unit.render(unit, version=self.version()).encode()

    def home(self) -> Path | None:
        return unit_file.home(unit_file.whole(self.file)) if self.file.is_file() else None

    def ours(self) -> bool:
        return self.file.read_bytes().startswith(systemd_unit.WRITTEN_BY.encode())

    def wrong(self, unit: Unit) -> list[Wrong]:
        return wrong(unit_file.whole(self.file), unit=unit)

    def after_writing(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("daemon-reload"), self._systemctl("enable", self.name)]

    def before_removing(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("disable", "--now", self.name)]

    def after_removing(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("daemon-reload")]

    def journal(self) -> str:
        return f"journalctl {'--user ' if self.scope is Scope.USER else ''}-u {self.name}"

    def _systemctl(self, *words: str) -> list[str]:
        whose = ["--user"] if self.scope is Scope.USER else []
        return ["systemctl", *whose, *words]

    def _advice(self) -> str:
        return f"`holdfast logs` and `{self.journal()}` say why."


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
