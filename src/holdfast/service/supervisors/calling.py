"""Calling: programs of the system are run, and what they say is heard."""

import subprocess
from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.core.errors import HoldfastError

NOT_FOUND = 127  # what a shell says of a program that does not exist
_PROGRAM_TIMEOUT = 900.0  # seconds: a supervisor waits for a stop as long as its unit allows


class ProgramResult(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str = ""
    err: str = ""

    @property
    def reason(self) -> str:
        """What it said of its failure, in one line."""
        return " ".join((self.err or self.out).split()) or f"it ended with {self.code}"


RunProgram = Callable[[Sequence[str]], ProgramResult]


class ProgramFailed(HoldfastError):
    """A program of the system did not do what was asked of it."""

    def __init__(self, argv: Sequence[str], result: ProgramResult, *, hint: str = "") -> None:
        super().__init__(
            f"`{' '.join(argv)}` failed: {result.reason}" + (f"\n{hint}" if hint else "")
        )


def program_caller(environ: Mapping[str, str]) -> RunProgram:
    """Runs programs found on this environment's PATH, with nothing but this environment."""

    def call(argv: Sequence[str]) -> ProgramResult:
        try:
            ran = subprocess.run(
                argv, env=dict(environ), capture_output=True, timeout=_PROGRAM_TIMEOUT, check=False
            )
        except FileNotFoundError:
            return ProgramResult(code=NOT_FOUND, err=f"{argv[0]} is not installed")
        except (OSError, subprocess.TimeoutExpired) as error:
            return ProgramResult(code=1, err=str(error))
        out, err = (said.decode("utf-8", "replace") for said in (ran.stdout, ran.stderr))
        return ProgramResult(code=ran.returncode, out=out, err=err)

    return call


def run_or_raise(run: RunProgram, argv: Sequence[str], *, hint: str = "") -> ProgramResult:
    ran = run(argv)
    if ran.code:
        raise ProgramFailed(argv, ran, hint=hint)
    return ran
