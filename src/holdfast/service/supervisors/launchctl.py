"""launchctl: a job of launchd's, asked for and told about through its own program."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.service.supervisors import launchd_plist
from holdfast.service.supervisors.calling import Call, must
from holdfast.service.supervisors.drift import Wrong, wrong_job
from holdfast.service.supervisors.keeping import Kept
from holdfast.service.supervisors.unit import Scope, Unit

_STATE = re.compile(r"^\s*state = (.+)$", re.MULTILINE)
_PID = re.compile(r"^\s*pid = (\d+)$", re.MULTILINE)
_RUNS = re.compile(r"^\s*runs = (\d+)$", re.MULTILINE)


class Launchd(msgspec.Struct, frozen=True, kw_only=True):
    """`keeping.Keeper` for one property list, of a person's launchd or of the machine's."""

    file: Path
    scope: Scope
    user_id: int
    call: Call

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def _domain(self) -> str:
        return "system" if self.scope is Scope.SYSTEM else f"gui/{self.user_id}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{self.name}"

    def start(self) -> None:
        """launchd knows no readiness: this returns when it has been started."""
        advice = "`holdfast logs` says why."
        if self._loaded() is None:
            must(self.call, ["launchctl", "bootstrap", self._domain, str(self.file)], advice=advice)
        else:
            must(self.call, ["launchctl", "kickstart", self._target], advice=advice)

    def stop(self) -> None:
        # Unloaded: one that is only killed would be started again, or at the next wish of a job.
        if self._loaded() is not None:
            must(self.call, ["launchctl", "bootout", self._target])

    def restart(self) -> None:
        if self._loaded() is None:
            self.start()
        else:
            must(self.call, ["launchctl", "kickstart", "-k", self._target])

    def kept(self) -> Kept:
        said = self._loaded()
        if said is None:
            return Kept(state="not loaded", in_hand=False, at_boot=True)
        state, pid, runs = (found.search(said) for found in (_STATE, _PID, _RUNS))
        return Kept(
            state=state[1] if state else "loaded",
            in_hand=True,
            pid=int(pid[1]) if pid else 0,
            restarts=max(0, int(runs[1]) - 1) if runs else 0,
            at_boot=True,
        )

    def listens(self) -> None:
        """It always does: it is the first process of its machine."""

    def wanted(self, unit: Unit) -> bytes:
        return launchd_plist.render(unit)

    def home(self) -> Path | None:
        return launchd_plist.home(self._read()) if self.file.is_file() else None

    def ours(self) -> bool:
        return "HOLDFAST_UNIT" in self._read().get("EnvironmentVariables", {})

    def wrong(self, unit: Unit) -> list[Wrong]:
        return wrong_job(self._read(), unit=unit)

    def after_writing(self) -> Sequence[Sequence[str]]:
        return [["launchctl", "enable", self._target]]

    def before_removing(self) -> Sequence[Sequence[str]]:
        return [["launchctl", "bootout", self._target]] if self._loaded() is not None else []

    def after_removing(self) -> Sequence[Sequence[str]]:
        return []

    def journal(self) -> str:
        return f"cat {self._read().get('StandardErrorPath', self.file)}"

    def _loaded(self) -> str | None:
        """What launchd says of the job; None: it does not know it."""
        ran = self.call(["launchctl", "print", self._target])
        return ran.out if ran.code == 0 else None

    def _read(self) -> dict[str, Any]:
        return launchd_plist.read(self.file.read_bytes())
