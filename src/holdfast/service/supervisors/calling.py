"""Calling: programs of the system are run, and what they say is heard."""

import subprocess
from collections.abc import Callable, Mapping, Sequence

import msgspec

from holdfast.core.errors import HoldfastError

NOT_THERE = 127  # what a shell says of a program that does not exist
_LONGEST = 900.0  # seconds: a supervisor waits for a stop as long as its unit allows


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    code: int
    out: str = ""
    err: str = ""

    @property
    def why(self) -> str:
        """What it said of its failure, in one line."""
        return " ".join((self.err or self.out).split()) or f"it ended with {self.code}"


Call = Callable[[Sequence[str]], Ran]


class CallFailed(HoldfastError):
    """A program of the system did not do what was asked of it."""

    def __init__(self, argv: Sequence[str], ran: Ran, *, advice: str = "") -> None:
        super().__init__(
            f"`{' '.join(argv)}` failed: {ran.why}" + (f"\n{advice}" if advice else "")
        )


def caller(environ: Mapping[str, str]) -> Call:
    """Runs programs found on this environment's PATH, with nothing but this environment."""

    def call(argv: Sequence[str]) -> Ran:
        try:
            ran = subprocess.run(
                argv, env=dict(environ), capture_output=True, timeout=_LONGEST, check=False
            )
        except FileNotFoundError:
            return Ran(code=NOT_THERE, err=f"{argv[0]} is not installed")
        except (OSError, subprocess.TimeoutExpired) as error:
            return Ran(code=1, err=str(error))
        out, err = (said.decode("utf-8", "replace") for said in (ran.stdout, ran.stderr))
        return Ran(code=ran.returncode, out=out, err=err)

    return call


def must(call: Call, argv: Sequence[str], *, advice: str = "") -> Ran:
    ran = call(argv)
    if ran.code:
        raise CallFailed(argv, ran, advice=advice)
    return ran
