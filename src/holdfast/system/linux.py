"""Linux kernel events on the event loop: file changes (inotify) and wall-clock alarms (timerfd)."""

import asyncio
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from holdfast.core.errors import HoldfastError

_INOTIFY_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_EVENT_HEADER = struct.Struct("iIII")  # which watch, what, what belongs together, bytes of the name
_ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
# Not each write: a half-written file is of no interest.
_EVENT_MASK = _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE
_OVERFLOW = 0x4000  # the kernel dropped events: any of them may have been ours
_READ_BYTES = 65536

_REALTIME = 0
_TIMERFD_FLAGS = 0o2000000 | 0o4000  # close on exec, non-blocking
_ABSOLUTE_CANCEL_ON_SET = 1 | 2  # at that time of day; or at once, if the clock is set
_TIMERSPEC = struct.Struct("4l")  # twice seconds and nanoseconds: interval, and first expiry
_MAX_SECONDS = 2**40


class WatchUnavailable(HoldfastError):
    """This system does not report file changes."""


class FileWatch:
    """Linux's inotify, on folders and not on files: most editors replace a file instead of writing
    to it. `changed` is set whenever one of the files has changed.

    Targets of symbolic links are watched too; when a link points to another target (`moved`), a new
    watch is needed. Entering raises `WatchUnavailable`.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._paths = _resolve_paths(self._files)
        self._names = frozenset(path.name for path in self._paths)
        self._fd = -1
        self.changed = asyncio.Event()

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            self.__exit__()
            raise WatchUnavailable(str(error)) from None
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    @property
    def moved(self) -> bool:
        """Whether the files resolve to other paths by now."""
        return _resolve_paths(self._files) != self._paths

    def _open(self) -> None:
        if sys.platform != "linux":
            raise WatchUnavailable("there is no inotify on {platform}", platform=sys.platform)
        import ctypes  # noqa: PLC0415 - not needed by a start

        libc: Any = ctypes.CDLL(None, use_errno=True)
        self._fd = int(libc.inotify_init1(_INOTIFY_FLAGS))
        folders = {path.parent for path in self._paths}
        results = [self._fd]
        if self._fd >= 0:
            add = libc.inotify_add_watch
            results += (add(self._fd, os.fsencode(each), _EVENT_MASK) for each in folders)
        if min(results) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            _, what, _, length = _EVENT_HEADER.unpack_from(data, at)
            at += _EVENT_HEADER.size + length
            name = data[at - length : at].rstrip(b"\0")
            if what & _OVERFLOW or os.fsdecode(name) in self._names:
                self.changed.set()


def _resolve_paths(files: Iterable[Path]) -> frozenset[Path]:
    """Each file and the target of its links; a target need not exist yet."""
    targets = {file: Path(os.path.realpath(file)) for file in files}
    return frozenset(targets) | {path for path in targets.values() if path.parent.is_dir()}


class TimerfdTimer:
    """Linux's timerfd. A monotonic sleep pauses while the machine is suspended and does not notice
    that the clock is set; checking the clock every minute would be polling."""

    async def wait_until(self, at: float) -> None:
        """Returns at that time, or earlier if the clock was set meanwhile."""
        loop = asyncio.get_running_loop()
        expired = asyncio.Event()
        fd = _create_timer(at)
        try:
            loop.add_reader(fd, expired.set)
            await expired.wait()
        finally:
            loop.remove_reader(fd)
            os.close(fd)


def _create_timer(at: float) -> int:
    """The descriptor of a timer, which is readable when it expires."""
    import ctypes  # noqa: PLC0415 - most gateways have no job

    libc = ctypes.CDLL(None, use_errno=True)
    fd = int(libc.timerfd_create(_REALTIME, _TIMERFD_FLAGS))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "no timer could be made")
    # Zero would disarm the timer; a time in the past expires at once.
    when = _TIMERSPEC.pack(0, 0, min(max(int(at), 1), _MAX_SECONDS), int((at % 1) * 1e9))
    if libc.timerfd_settime(fd, _ABSOLUTE_CANCEL_ON_SET, when, None) != 0:
        os.close(fd)
        raise OSError(ctypes.get_errno(), "the timer could not be set")
    return fd
