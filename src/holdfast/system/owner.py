"""The owner of a home that does not answer: proven by the kernel, then ended, and nobody else."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.system.lock import Holder
from holdfast.system.process import gone, opened

AFTER_SIGKILL = 10.0  # a process that is not gone by then waits for a disk or a device


class Unproven(HoldfastError):
    """Nobody is signalled: who holds the home could not be proven."""


def prove(home: Path, holder: Holder) -> int | None:
    """A descriptor of the process that holds the lock of this home; None: it has gone.

    Three things must agree: the pid and start time that the holder wrote down, and the kernel's
    own word that this process has the home's directory open and locked. The descriptor is had
    first, so that none of it can come to be about another process of the same pid.
    """
    fd = opened(holder.pid, started=holder.start_time)
    if fd is None:
        return None
    try:
        if not _holds(holder.pid, home):
            if gone(fd, within=0):
                os.close(fd)
                return None
            raise Unproven(
                f"process {holder.pid} is said to hold {home} and does not have it locked. "
                "Nothing was signalled. Look at it, and end it yourself if it is a gateway."
            )
    except PermissionError:
        os.close(fd)
        raise Unproven(
            f"process {holder.pid} holds {home} and belongs to another user. Nothing was "
            "signalled. Start this as the user who runs the gateway."
        ) from None
    except Unproven:
        os.close(fd)
        raise
    return fd


def _holds(pid: int, home: Path) -> bool:
    here = home.stat()
    folder = Path(f"/proc/{pid}/fd")
    try:
        numbers = os.listdir(folder)
    except FileNotFoundError:
        return False
    return any(_is(folder / each, here) and _locked(pid, each) for each in numbers)


def _is(link: Path, here: os.stat_result) -> bool:
    try:
        found = link.stat()
    except FileNotFoundError:
        return False  # closed meanwhile
    return (found.st_dev, found.st_ino) == (here.st_dev, here.st_ino)


def _locked(pid: int, number: str) -> bool:
    try:
        facts = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    except FileNotFoundError:
        return False
    return any(line.startswith("lock:") and "FLOCK" in line for line in facts.splitlines())


def end(fd: int, *, within: float, tell: Callable[[str], None]) -> None:
    """SIGTERM, and SIGKILL when that has not helped in `within` seconds. Blocks until it is gone.

    `fd` is what `prove` gave. Raises `Unproven` only where even SIGKILL does not end it.
    """
    tell("it does not answer: SIGTERM")
    if _signalled(fd, signal.SIGTERM, within):
        return
    tell(f"it has not ended within {within:g} s: SIGKILL")
    if not _signalled(fd, signal.SIGKILL, AFTER_SIGKILL):
        raise Unproven(
            "it did not end by SIGKILL: the kernel holds it, as for a disk that does not answer. "
            "Look at the system's log."
        )


def _signalled(fd: int, which: signal.Signals, within: float) -> bool:
    try:
        signal.pidfd_send_signal(fd, which)
    except ProcessLookupError:
        return True
    return gone(fd, within=within)
