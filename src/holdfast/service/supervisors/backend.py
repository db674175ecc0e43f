"""What every supervisor backend can do with a gateway's unit, and how its program is called."""

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.service.supervisors.drift import UnitProblem
from holdfast.service.supervisors.unit import Unit, UnitScope

NOT_FOUND = 127  # the exit code of a shell for a program that does not exist
_PROGRAM_TIMEOUT = 900.0  # seconds: a supervisor waits for a stop as long as its unit allows


class ProgramResult(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str = ""
    err: str = ""

    @property
    def reason(self) -> str:
        """The error output in one line."""
        return " ".join((self.err or self.out).split()) or f"it exited with {self.code}"


RunProgram = Callable[[Sequence[str]], ProgramResult]


class ProgramFailed(HoldfastError):
    """A program of the system failed."""

    def __init__(self, argv: Sequence[str], result: ProgramResult, *, hint: str = "") -> None:
        super().__init__(
            f"`{' '.join(argv)}` failed: {result.reason}" + (f"\n{hint}" if hint else "")
        )


def program_caller(environ: Mapping[str, str]) -> RunProgram:
    """Runs programs from this environment's PATH, in exactly this environment."""

    def call(argv: Sequence[str]) -> ProgramResult:
        try:
            ran = subprocess.run(
                argv, env=dict(environ), capture_output=True, timeout=_PROGRAM_TIMEOUT, check=False
            )
        except FileNotFoundError:
            return ProgramResult(code=NOT_FOUND, err=f"{argv[0]} is not installed")
        except (OSError, subprocess.TimeoutExpired) as error:
            return ProgramResult(code=1, err=str(error))
        out, err = (each.decode("utf-8", "replace") for each in (ran.stdout, ran.stderr))
        return ProgramResult(code=ran.returncode, out=out, err=err)

    return call


def run_or_raise(run: RunProgram, argv: Sequence[str], *, hint: str = "") -> ProgramResult:
    ran = run(argv)
    if ran.code:
        raise ProgramFailed(argv, ran, hint=hint)
    return ran


class UnitStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a unit, in the supervisor's own words."""

    state: str  # "active (running)"
    active: bool  # it runs, or its supervisor may start it by itself
    failed: bool = False
    pid: int = 0
    restarts: int = 0  # by the supervisor itself, since it was last started by hand
    enabled: bool = False


class SupervisorBackend(Protocol):
    """One unit, installed or about to be, and its supervisor."""

    @property
    def name(self) -> str:
        """As its supervisor calls it: `holdfast.service`."""
        ...

    @property
    def scope(self) -> UnitScope: ...
    @property
    def file(self) -> Path: ...
    def start(self) -> None:
        """Returns when the gateway is ready, if the supervisor knows that."""
        ...

    def stop(self) -> None:
        """Returns when it has ended and will not be restarted automatically."""
        ...

    def restart(self) -> None: ...
    def status(self) -> UnitStatus: ...
    def check_available(self) -> None:
        """Raises if only the supervisor's programs are installed, and it does not run."""
        ...

    def render(self, unit: Unit) -> bytes:
        """The contents of the unit file."""
        ...

    def home(self) -> Path | None:
        """The home of the installed unit; None: there is none, or it names no home."""
        ...

    def is_ours(self) -> bool:
        """Whether the installed unit was written by us."""
        ...

    def problems(self, unit: Unit) -> list[UnitProblem]:
        """Where the installed file differs from the needed unit."""
        ...

    def commands_after_install(self) -> Sequence[Sequence[str]]:
        """The commands that activate a written file, now and at each boot."""
        ...

    def commands_before_removal(self) -> Sequence[Sequence[str]]: ...
    def commands_after_removal(self) -> Sequence[Sequence[str]]: ...
    def log_command(self) -> str:
        """The command that shows the gateway's output before it logs."""
        ...
