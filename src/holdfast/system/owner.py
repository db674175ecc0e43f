"""The owner of a home that does not answer: proven by the kernel, then ended, and nobody else."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from holdfast.core.errors import HoldfastError
from holdfast.system.lock import LockHolder
from holdfast.system.process import has_ended, open_pidfd

SIGKILL_TIMEOUT = 10.0  # a process that is not gone by then waits for a disk or a device


class HolderUnverified(HoldfastError):
    """Nobody is signalled: who holds the home could not be proven."""


def verify_holder(home: Path, holder: LockHolder) -> int | None:
    """A descriptor of the process that holds the lock of this home; None: it has gone.

    Three things must agree: the pid and start time that the holder wrote down, and the kernel's
    own word that this process has the home's directory open and locked. The descriptor is had
    first, so that none of it can come to be about another process of the same pid.
    """
    fd = open_pidfd(holder.pid, expected_start=holder.start_time)
    if fd is None:
        return None
    try:
        if not _holds_lock(holder.pid, home):
            if has_ended(fd, timeout=0):
                os.close(fd)
                return None
            raise HolderUnverified(
                f"process {holder.pid} is said to hold {home} and does not have it locked. "
                "Nothing was signalled. Look at it, and end it yourself if it is a gateway."
            )
    except PermissionError:
        os.close(fd)
        raise HolderUnverified(
            f"process {holder.pid} holds {home} and belongs to another user. Nothing was "
            "signalled. Start this as the user who runs the gateway."
        ) from None
    except HolderUnverified:
        os.close(fd)
        raise
    return fd


def _holds_lock(pid: int, home: Path) -> bool:
    here = home.stat()
    folder = Path(f"/proc/{pid}/fd")
    try:
        numbers = os.listdir(folder)
    except FileNotFoundError:
        return False
    return any(_same_file(folder / each, here) and _is_flocked(pid, each) for each in numbers)


def _same_file(link: Path, expected: os.stat_result) -> bool:
    try:
        found = link.stat()
    except FileNotFoundError:
        return False  # closed meanwhile
    return (found.st_dev, found.st_ino) == (expected.st_dev, expected.st_ino)


def _is_flocked(pid: int, number: str) -> bool:
    try:
        facts = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    except FileNotFoundError:
        return False
    return any(line.startswith("lock:") and "FLOCK" in line for line in facts.splitlines())


def terminate(fd: int, *, timeout: float, report: Callable[[str], None]) -> None:
    """SIGTERM, and SIGKILL when that has not helped in `within` seconds. Blocks until it is gone.

    `fd` is what `prove` gave. Raises `HolderUnverified` only where even SIGKILL does not end it.
    """
    report("it does not answer: SIGTERM")
    if _signal_and_wait(fd, signal.SIGTERM, timeout):
        return
    report(f"it has not ended within {timeout:g} s: SIGKILL")
    if not _signal_and_wait(fd, signal.SIGKILL, SIGKILL_TIMEOUT):
        raise HolderUnverified(
            "it did not end by SIGKILL: the kernel holds it, as for a disk that does not answer. "
            "Look at the system's log."
        )


def _signal_and_wait(fd: int, which: signal.Signals, timeout: float) -> bool:
    try:
        signal.pidfd_send_signal(fd, which)
    except ProcessLookupError:
        return True
    return has_ended(fd, timeout=timeout)
