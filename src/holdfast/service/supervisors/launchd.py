"""The launchd backend: property lists, and launchctl.

Imports plistlib, and with it XML: only imported where launchd is the supervisor.
"""

import plistlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.service.supervisors.backend import RunProgram, UnitStatus, run_or_raise
from holdfast.service.supervisors.drift import UnitProblem, launchd_problems
from holdfast.service.supervisors.systemd_unit import home_from_command
from holdfast.service.supervisors.unit import Unit, UnitScope, check_writable
from holdfast.system.paths import Paths

# launchd restarts a job at the earliest this long after its last start.
MIN_RESTART_SECONDS = 10
NO_TIMEOUT = 0  # launchd's value for an unlimited stop
_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_STATE = re.compile(r"^\s*state = (.+)$", re.MULTILINE)
_PID = re.compile(r"^\s*pid = (\d+)$", re.MULTILINE)
_RUNS = re.compile(r"^\s*runs = (\d+)$", re.MULTILINE)


def plist_name(unit: Unit) -> str:
    return f"{unit.name}.plist"


def render_plist(unit: Unit) -> bytes:
    return plistlib.dumps(_document(unit), sort_keys=False)


def _document(unit: Unit) -> dict[str, Any]:
    home = check_writable(unit.home)
    output = str(Paths(home).logs / "launchd.log")
    document: dict[str, Any] = {
        "Label": unit.name,
        "ProgramArguments": list(unit.command),
        "WorkingDirectory": str(home),
        "EnvironmentVariables": {
            "PATH": _PATH,
            "HOLDFAST_UNIT": unit.name,
            "HOLDFAST_SCOPE": unit.scope.value,
        },
        "RunAtLoad": True,
        # A job that exits with 0 is not restarted. An invalid configuration exits with 0 too, as
        # launchd has no other exit code for that: see `launchd_exit_code`.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": MIN_RESTART_SECONDS,
        "ExitTimeOut": unit.whole_stop_seconds or NO_TIMEOUT,
        "ProcessType": "Interactive",  # otherwise macOS throttles it as a background task
        "Umask": 0o077,
        "StandardOutPath": output,
        "StandardErrorPath": output,
    }
    if unit.scope is UnitScope.SYSTEM:
        document |= {key: name for key, name in _user_and_group(unit) if name}
    return document


def _user_and_group(unit: Unit) -> list[tuple[str, str]]:
    return [("UserName", unit.user), ("GroupName", unit.group)]


def parse_plist(content: bytes) -> dict[str, Any]:
    """The contents of a property list; {}: it is invalid, or not a dictionary."""
    try:
        document = plistlib.loads(content)
    except (plistlib.InvalidFileException, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def plist_home(document: dict[str, Any]) -> Path | None:
    return home_from_command([str(word) for word in document.get("ProgramArguments", [])])


class LaunchdBackend(msgspec.Struct, frozen=True, kw_only=True):
    """Implements `SupervisorBackend` for one property list, of a user or of the system."""

    file: Path
    scope: UnitScope
    user_id: int
    run: RunProgram

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def _domain(self) -> str:
        return "system" if self.scope is UnitScope.SYSTEM else f"gui/{self.user_id}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{self.name}"

    def start(self) -> None:
        """launchd does not know readiness: this returns when the process was started."""
        advice = "See `holdfast logs` for the reason."
        if self._print_job() is None:
            run_or_raise(
                self.run, ["launchctl", "bootstrap", self._domain, str(self.file)], hint=advice
            )
        else:
            run_or_raise(self.run, ["launchctl", "kickstart", self._target], hint=advice)

    def stop(self) -> None:
        # Unloaded: a job that is only killed would be restarted.
        if self._print_job() is not None:
            run_or_raise(self.run, ["launchctl", "bootout", self._target])

    def restart(self) -> None:
        if self._print_job() is None:
            self.start()
        else:
            run_or_raise(self.run, ["launchctl", "kickstart", "-k", self._target])

    def status(self) -> UnitStatus:
        description = self._print_job()
        if description is None:
            return UnitStatus(state="not loaded", active=False, enabled=True)
        state, pid, runs = (pattern.search(description) for pattern in (_STATE, _PID, _RUNS))
        return UnitStatus(
            state=state[1] if state else "loaded",
            active=True,
            pid=int(pid[1]) if pid else 0,
            restarts=max(0, int(runs[1]) - 1) if runs else 0,
            enabled=True,
        )

    def check_available(self) -> None:
        """launchd always runs: it is the first process of the machine."""

    def render(self, unit: Unit) -> bytes:
        return render_plist(unit)

    def home(self) -> Path | None:
        return plist_home(self._read_plist()) if self.file.is_file() else None

    def is_ours(self) -> bool:
        return "HOLDFAST_UNIT" in self._read_plist().get("EnvironmentVariables", {})

    def problems(self, unit: Unit) -> list[UnitProblem]:
        return launchd_problems(self._read_plist(), unit=unit)

    def commands_after_install(self) -> Sequence[Sequence[str]]:
        return [["launchctl", "enable", self._target]]

    def commands_before_removal(self) -> Sequence[Sequence[str]]:
        return [["launchctl", "bootout", self._target]] if self._print_job() is not None else []

    def commands_after_removal(self) -> Sequence[Sequence[str]]:
        return []

    def log_command(self) -> str:
        return f"cat {self._read_plist().get('StandardErrorPath', self.file)}"

    def _print_job(self) -> str | None:
        """launchd's description of the job; None: it is not loaded."""
        ran = self.run(["launchctl", "print", self._target])
        return ran.out if ran.code == 0 else None

    def _read_plist(self) -> dict[str, Any]:
        return parse_plist(self.file.read_bytes())
