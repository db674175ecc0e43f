"""The Linux system calls that Python's standard library lacks: prctl, seccomp, capset, unshare,
inotify."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION_3 = 0x20080522
SECCOMP_MODE_FILTER = 2
FILTER_STEP = 8  # bytes
IN_MODIFY = 0x2
IN_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, value: int = 0) -> bool:
    """Whether the kernel agreed."""
    return bool(_libc.prctl(option, value, 0, 0, 0) == 0)


def unshare(flags: int) -> int:
    """0: this process has new namespaces."""
    return int(_libc.unshare(flags))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def filter_calls(steps: bytes) -> bool:
    """Whether the kernel took this program, which judges every later system call."""
    program = _Filter(len(steps) // FILTER_STEP, steps)
    return bool(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def drop_bounding_set() -> None:
    """No capability can be regained, whatever is executed."""
    number = 0
    while prctl(PR_CAPBSET_DROP, number):
        number += 1


def drop_capabilities() -> None:
    """Effective, permitted and inheritable: all empty."""
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def inotify_open() -> int | None:
    """A non-blocking inotify descriptor; None where the kernel grants no more of them."""
    fd = int(_libc.inotify_init1(IN_NONBLOCK_CLOEXEC))
    return fd if fd >= 0 else None


def inotify_watch_writes(fd: int, path: str) -> int:
    """The watch's number; negative: it could not be had."""
    return int(_libc.inotify_add_watch(fd, os.fsencode(path), IN_MODIFY))


def inotify_forget(fd: int, watch: int) -> None:
    _libc.inotify_rm_watch(fd, watch)
