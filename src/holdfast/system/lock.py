"""The lock of a home: one process owns its data, and the kernel says which.

Also how `run --replace` verifies the process that holds a home, and stops it if it does not answer.
"""

import fcntl
import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Self

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Clock
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended, open_pidfd, start_time

# Seconds for which a home is tried again whose holder has no name: it mostly has one in an instant.
_UNKNOWN_HOLDER_TIMEOUT = 2.0
_RETRY_PAUSE = 0.01
GATEWAY = "gateway"  # what a home is held for, mostly


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a home, as written in the lock file for those who meet it."""

    pid: int
    start_time: int | None
    since: float
    purpose: str = GATEWAY
    address: str = ""


class HomeInUse(HoldfastError):
    """Another process holds the home."""

    def __init__(self, home: Path, holder: LockHolder | None, *, purpose: str = GATEWAY) -> None:
        super().__init__(_in_use_text(home, holder, purpose))
        self.holder = holder


class HolderUnreadable(HoldfastError):
    """Who holds the home may not be known by this user."""


class HomeLock:
    """Owns the OS lock on a home while its context is open.

    The lock is the kernel's and dies with its process, so no file left by a killed one blocks a
    start. It is held on the directory itself: a lock file can be removed by somebody who takes
    it for a stale one, and a second gateway would then start beside the first. No program that
    this process starts inherits it.
    """

    def __init__(self, home: Path, *, purpose: str = GATEWAY, clock: Clock | None = None) -> None:
        self._home = home
        self._purpose = purpose
        self._now: Callable[[], float] = (clock or SystemClock()).now
        self._fd: int | None = None
        self._since = 0.0

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Take the lock or raise `HomeInUse`, which says who has it. Once it is ours a second call
        does nothing."""
        if self._fd is not None:
            return
        end = time.monotonic() + _UNKNOWN_HOLDER_TIMEOUT
        while not self._try_lock(last_try=time.monotonic() >= end):
            time.sleep(_RETRY_PAUSE)
        self._record_holder()

    def _try_lock(self, *, last_try: bool) -> bool:
        """Whoever is there without a name has not written it down yet, has just taken it away, or
        was killed while it bore a process, which has the lock until it is a program of its own."""
        try:
            self._fd = _lock(self._home)
        except BlockingIOError:
            holder = read_holder(self._home)
            if holder is not None or last_try:
                raise HomeInUse(self._home, holder, purpose=self._purpose) from None
        except OSError as error:
            raise HoldfastError(f"{self._home} cannot be locked: {error.strerror}") from None
        return self._fd is not None

    def wait(self) -> None:
        """Take the lock as soon as it is free, however long that is. Blocks: the kernel wakes
        whoever waits in the instant in which the holder lets go or dies."""
        try:
            self._fd = _lock(self._home, wait=True)
        except OSError as error:
            raise HoldfastError(f"{self._home} cannot be locked: {error.strerror}") from None
        self._record_holder()

    def _record_holder(self) -> None:
        self._since = self._now()
        self.announce("")

    def announce(self, address: str) -> None:
        """Write down where this process can be reached, for those who meet the lock."""
        pid = os.getpid()
        holder = LockHolder(
            pid=pid,
            start_time=start_time(pid),
            since=self._since,
            purpose=self._purpose,
            address=address,
        )
        _write_atomically(Paths(self._home).lock, msgspec.json.encode(holder))

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        # While the lock is still held, or a successor's name would be removed.
        Paths(self._home).lock.unlink(missing_ok=True)
        os.close(fd)


def read_holder(home: Path) -> LockHolder | None:
    """Who holds the home, as far as the lock file tells; None: nobody who is still alive.

    This only reads: it takes no lock, so that asking never makes a start fail. Raises
    `HolderUnreadable` where this user may not look: a gateway of somebody else may well be there.
    """
    path = Paths(home).lock
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except PermissionError:
        raise HolderUnreadable(
            f"{path} may not be read by this user; ask as the user who runs the gateway."
        ) from None
    except (OSError, msgspec.MsgspecError):
        return None
    alive = start_time(holder.pid)
    return holder if alive is not None and alive == holder.start_time else None


def is_gateway_running(home: Path) -> bool:
    """Whether whoever holds the home is a gateway, and not somebody who mends or reads it."""
    holder = read_holder(home)
    return holder is not None and holder.purpose == GATEWAY


def _lock(home: Path, *, wait: bool = False) -> int:
    fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        raise
    return fd


def _write_atomically(path: Path, content: bytes) -> None:
    """Whole or not at all: those who read it take no lock."""
    draft = path.with_name(path.name + ".new")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise HoldfastError(f"{path} cannot be written: {error.strerror}") from None


def _in_use_text(home: Path, holder: LockHolder | None, purpose: str) -> str:
    if holder is None:
        return f"{home} is in use by another process, which does not say who it is; try again"
    since = datetime.fromtimestamp(holder.since).strftime("%Y-%m-%d %H:%M:%S")
    at = f" at {holder.address}" if holder.address else ""
    told = f"{home} is in use: {holder.purpose}, process {holder.pid}{at}, since {since}."
    return f"{told}\n{_remedy(holder, purpose)}"


def _remedy(holder: LockHolder, purpose: str) -> str:
    if purpose == GATEWAY:
        return (
            "One home has one gateway. Ask that one with `holdfast status`, take its place with "
            "`holdfast run --replace`, end it with `holdfast gateway stop`, or start this one with "
            "another --home."
        )
    if holder.purpose == GATEWAY:
        return (
            "This needs the home for itself: end the gateway first, with `holdfast gateway stop`."
        )
    return "This needs the home for itself: try again when that one is through."


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
