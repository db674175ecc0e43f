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

GATEWAY = "gateway"  # the usual purpose of a lock
SIGKILL_TIMEOUT = 10.0  # a process that is left after it waits for a disk or a device

# How long to retry while the lock file names no holder: usually it does after an instant.
_UNKNOWN_HOLDER_TIMEOUT = 2.0
_RETRY_PAUSE = 0.01


class LockHolder(msgspec.Struct, frozen=True, kw_only=True):
    """The process that holds a home, as written in the lock file for other processes."""

    pid: int
    start_time: int | None
    since: float
    purpose: str = GATEWAY
    address: str = ""


class HomeInUse(HoldfastError):
    """Another process holds the home."""

    def __init__(self, home: Path, holder: LockHolder | None, *, purpose: str = GATEWAY) -> None:
        if holder is None:
            super().__init__(
                "{home} is in use by another process, which is still starting. Try again.",
                home=home,
            )
        else:
            since = datetime.fromtimestamp(holder.since).strftime("%Y-%m-%d %H:%M:%S")
            super().__init__(
                "{home} is in use: {purpose}, process {process}, since {since}.\n{remedy}",
                home=home,
                purpose=holder.purpose,
                process=f"{holder.pid} ({holder.address})" if holder.address else holder.pid,
                since=since,
                remedy=_remedy(holder, purpose),
            )
        self.holder = holder


class HolderUnreadable(HoldfastError):
    """This user may not read the lock file."""


class HomeLock:
    """Owns the OS lock on a home while its context is open.

    The kernel releases the lock when the process ends, so a file left by a killed process never
    blocks a start. The lock is on the directory itself: a lock file could be removed by a person
    who takes it for a stale one, and a second gateway would start. Child processes do not inherit
    the lock.
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
        """Take the lock or raise `HomeInUse`, which names the holder. If it is held already, this
        does nothing."""
        if self._fd is not None:
            return
        end = time.monotonic() + _UNKNOWN_HOLDER_TIMEOUT
        while not self._try_lock(last_try=time.monotonic() >= end):
            time.sleep(_RETRY_PAUSE)
        self._record_holder()

    def _try_lock(self, *, last_try: bool) -> bool:
        """A holder that is not in the lock file has not written it yet, has just removed it, or was
        killed during a fork: the child has the lock until its exec."""
        try:
            self._fd = _lock(self._home)
        except BlockingIOError:
            holder = read_holder(self._home)
            if holder is not None or last_try:
                raise HomeInUse(self._home, holder, purpose=self._purpose) from None
        except OSError as error:
            raise HoldfastError(
                "{home} cannot be locked: {error}. Check its permissions; a network file "
                "system must support locks",
                home=self._home,
                error=error.strerror,
            ) from None
        return self._fd is not None

    def wait(self) -> None:
        """Block until the lock is free, and take it. The kernel wakes the waiting process as soon
        as the holder releases it or dies."""
        try:
            self._fd = _lock(self._home, wait=True)
        except OSError as error:
            raise HoldfastError(
                "{home} cannot be locked: {error}. Check its permissions; a network file "
                "system must support locks",
                home=self._home,
                error=error.strerror,
            ) from None
        self._record_holder()

    def _record_holder(self) -> None:
        self._since = self._now()
        self.announce("")

    def announce(self, address: str) -> None:
        """Write the address of this process into the lock file, for other processes."""
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
        """Release the lock; a second call does nothing."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        # While the lock is still held, or the successor's file would be removed.
        Paths(self._home).lock.unlink(missing_ok=True)
        os.close(fd)


def read_holder(home: Path) -> LockHolder | None:
    """The holder in the lock file; None: there is none, or it has ended.

    This only reads and takes no lock, so it never makes a start fail. Raises `HolderUnreadable` if
    this user may not read it: the gateway may belong to another user.
    """
    path = Paths(home).lock
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except PermissionError:
        raise HolderUnreadable(
            "{path} cannot be read by this user. Run this command as the user who runs "
            "the gateway.",
            path=path,
        ) from None
    except (OSError, msgspec.MsgspecError):
        return None
    alive = start_time(holder.pid)
    return holder if alive is not None and alive == holder.start_time else None


def is_gateway_running(home: Path) -> bool:
    """Whether the holder is a gateway, and not a command such as a restore."""
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
    """Readers take no lock, so they must never see a half-written file."""
    draft = path.with_name(path.name + ".new")
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise HoldfastError(
            "{path} cannot be written: {error}. Check its permissions and the free space",
            path=path,
            error=error.strerror,
        ) from None


def _remedy(holder: LockHolder, purpose: str) -> HoldfastError:
    if purpose == GATEWAY:
        return HoldfastError(
            "A home can have only one gateway. Check it with `holdfast status`, replace it with "
            "`holdfast run --replace`, stop it with `holdfast gateway stop`, or start this one "
            "with another --home."
        )
    if holder.purpose == GATEWAY:
        return HoldfastError(
            "This command needs the home for itself. First run: `holdfast gateway stop`"
        )
    return HoldfastError(
        "This command needs the home for itself. Try again when the other one has finished."
    )


class HolderUnverified(HoldfastError):
    """The holder of the home could not be verified, so no process was signalled."""


def verify_holder(home: Path, holder: LockHolder) -> int | None:
    """A pidfd of the process that holds the lock of this home; None: it has ended.

    Three things must agree: the pid and start time in the lock file, and the kernel's information
    that this process has the home's directory open and locked. The pidfd is opened first, so that
    none of the checks can be about another process with a reused pid.
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
                "process {pid} is recorded as the gateway of {home} but does not hold its "
                "lock. No signal was sent. Check the process, and end it yourself if it is a "
                "gateway.",
                pid=holder.pid,
                home=home,
            )
    except PermissionError:
        os.close(fd)
        raise HolderUnverified(
            "process {pid} holds the lock of {home} and belongs to another user. No "
            "signal was sent. Run this command as the user who runs the gateway.",
            pid=holder.pid,
            home=home,
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
    except PermissionError:
        # A gateway hides its descriptors (`protect_memory`), also from other processes of its user.
        if _effective_uid(pid) != os.geteuid():
            raise
        return _is_listed(pid, inode=here.st_ino)
    return any(_same_file(folder / each, here) and _is_flocked(pid, each) for each in numbers)


def _same_file(link: Path, expected: os.stat_result) -> bool:
    try:
        found = link.stat()
    except FileNotFoundError:
        return False  # closed meanwhile
    return (found.st_dev, found.st_ino) == (expected.st_dev, expected.st_ino)


def _effective_uid(pid: int) -> int:
    """Not the owner of /proc/PID, which is root for a process that hides."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("Uid:"):
            return int(line.split()[2])
    return -1


def _is_listed(pid: int, *, inode: int) -> bool:
    """Whether the kernel lists a lock of this process on a file of this number. The device is not
    compared: some file systems list another one than `stat` reports."""
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[4] == str(pid) and fields[5].endswith(f":{inode}"):
            return True
    return False


def _is_flocked(pid: int, number: str) -> bool:
    try:
        facts = Path(f"/proc/{pid}/fdinfo/{number}").read_text()
    except FileNotFoundError:
        return False
    return any(line.startswith("lock:") and "FLOCK" in line for line in facts.splitlines())


def terminate(fd: int, *, timeout: float, report: Callable[[str], None]) -> None:
    """SIGTERM, then SIGKILL after `timeout` seconds. Blocks until the process has ended.

    `fd` is the result of `verify_holder`. Raises `HolderUnverified` only if SIGKILL has no effect.
    """
    report("it does not answer: SIGTERM")
    if _signal_and_wait(fd, signal.SIGTERM, timeout):
        return
    report(f"it has not ended within {timeout:g} s: SIGKILL")
    if not _signal_and_wait(fd, signal.SIGKILL, SIGKILL_TIMEOUT):
        raise HolderUnverified(
            "the process did not end after SIGKILL: it waits in the kernel, for example "
            "for a disk that does not respond. Check the system log."
        )


def _signal_and_wait(fd: int, which: signal.Signals, timeout: float) -> bool:
    try:
        signal.pidfd_send_signal(fd, which)
    except ProcessLookupError:
        return True
    return has_ended(fd, timeout=timeout)
