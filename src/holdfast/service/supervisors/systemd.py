"""The systemd backend: starts, stops, installs and inspects a unit through systemctl."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast.service.supervisors import systemd_unit
from holdfast.service.supervisors.backend import RunProgram, UnitStatus, run_or_raise
from holdfast.service.supervisors.drift import UnitProblem, systemd_problems
from holdfast.service.supervisors.unit import Unit, UnitScope

_PROPERTIES = "ActiveState,SubState,MainPID,NRestarts,UnitFileState"
_VERSION = re.compile(r"systemd (\d+)")


class SystemdBackend(msgspec.Struct, frozen=True, kw_only=True):
    """Implements `SupervisorBackend` for one unit file, of a user or of the system."""

    file: Path
    scope: UnitScope
    run: RunProgram

    @property
    def name(self) -> str:
        return self.file.name

    def start(self) -> None:
        run_or_raise(self.run, self._systemctl("start", self.name), hint=self._hint())

    def stop(self) -> None:
        run_or_raise(self.run, self._systemctl("stop", self.name), hint=self._hint())

    def restart(self) -> None:
        run_or_raise(self.run, self._systemctl("restart", self.name), hint=self._hint())

    def status(self) -> UnitStatus:
        output = run_or_raise(
            self.run, self._systemctl("show", self.name, f"--property={_PROPERTIES}")
        ).out
        facts = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        state = facts.get("ActiveState", "unknown")
        return UnitStatus(
            state=f"{state} ({facts.get('SubState', 'unknown')})",
            active=state in ("active", "activating", "deactivating", "reloading"),
            failed=state == "failed",
            pid=_to_int(facts.get("MainPID")),
            restarts=_to_int(facts.get("NRestarts")),
            enabled=facts.get("UnitFileState", "").startswith("enabled"),
        )

    def version(self) -> int:
        """The version of systemd; 0: unknown."""
        found = _VERSION.search(self.run(["systemctl", "--version"]).out)
        return int(found[1]) if found else 0

    def check_available(self) -> None:
        run_or_raise(
            self.run,
            self._systemctl("show", "--property=Version"),
            hint="systemd does not run here, or not for this user. In a container, `holdfast "
            "gateway boot` keeps the gateway.",
        )

    def render(self, unit: Unit) -> bytes:
        return systemd_unit.render_unit(unit, version=self.version()).encode()

    def home(self) -> Path | None:
        return (
            systemd_unit.parse_home(systemd_unit.read_unit_text(self.file))
            if self.file.is_file()
            else None
        )

    def is_ours(self) -> bool:
        return self.file.read_bytes().startswith(systemd_unit.WRITTEN_BY.encode())

    def problems(self, unit: Unit) -> list[UnitProblem]:
        return systemd_problems(systemd_unit.read_unit_text(self.file), unit=unit)

    def commands_after_install(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("daemon-reload"), self._systemctl("enable", self.name)]

    def commands_before_removal(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("disable", "--now", self.name)]

    def commands_after_removal(self) -> Sequence[Sequence[str]]:
        return [self._systemctl("daemon-reload")]

    def log_command(self) -> str:
        return f"journalctl {'--user ' if self.scope is UnitScope.USER else ''}-u {self.name}"

    def _systemctl(self, *words: str) -> list[str]:
        whose = ["--user"] if self.scope is UnitScope.USER else []
        return ["systemctl", *whose, *words]

    def _hint(self) -> str:
        return f"`holdfast logs` and `{self.log_command()}` say why."


def _to_int(text: str | None) -> int:
    return int(text) if text is not None and text.isdigit() else 0
