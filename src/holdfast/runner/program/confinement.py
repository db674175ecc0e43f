"""Confinement: the privileges that the runner drops before it serves, and the limits of what it
starts.

User namespaces are refused by a seccomp filter, because inside one a command would be root and
could mount memory that no limit counts. A filter needs no privilege and holds for all that is
started below. `clone3` hides its flags from a filter; without it libraries fall back to `clone`.
"""

from __future__ import annotations

import errno
import os
import resource
import struct
from typing import Any

from . import kernel

LIMITS = {
    "processes": resource.RLIMIT_NPROC,
    "memory": resource.RLIMIT_DATA,
    "file": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
    "descriptors": resource.RLIMIT_NOFILE,
}
NICENESS = 5
OOM_SCORE = b"500"


def drop_root(uid: int) -> None:
    """Become `uid` for good: no group, no capability, no way back."""
    kernel.drop_bounding_set()
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.drop_capabilities()


def confine(uid: int | None) -> None:
    if uid is not None:
        drop_root(uid)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    # What runs below shares our user: without this it could open our descriptors in /proc
    # and speak to the gateway in our name.
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    # As pid 1 orphans come to us anyway; without a sandbox they come only by this.
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    os.umask(0o022)


def limit_this_process(limits: dict[str, Any]) -> None:
    """For children alone: the runner must be able to fork while a bomb has used up the rest."""
    for name, number in LIMITS.items():
        if limits[name] is None:
            continue
        limit = int(limits[name])
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            limit = min(limit, hard)
        resource.setrlimit(number, (limit, limit))
    os.nice(NICENESS)
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(OOM_SCORE)
    except OSError:
        return


NEW_USER = 0x10000000  # CLONE_NEWUSER, the flag of clone and unshare
CLONE3 = 435  # on every architecture
# The kernel's id of an architecture, and its numbers of clone and unshare.
ARCHITECTURES = (
    (0xC000003E, 56, 272),  # x86_64
    (0x40000003, 120, 310),  # i386
    (0xC00000B7, 220, 97),  # aarch64
    (0x40000028, 120, 337),  # arm
)
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in seccomp_data
_LOAD, _AND, _EQUALS, _HAS, _RETURN = 0x20, 0x54, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NOT_X32 = 0xBFFFFFFF  # x32 has x86_64's numbers with one bit more

Instruction = tuple[int, int, int, int]  # code, steps to skip if so, steps if not, operand


def refuse_user_namespaces() -> bool:
    """True if the kernel accepted the filter. Needs `PR_SET_NO_NEW_PRIVS`; cannot be undone."""
    program = [step for known in ARCHITECTURES for step in _steps(*known)]
    program.append((_RETURN, 0, 0, _ALLOW))
    return kernel.filter_calls(b"".join(struct.pack("<HBBI", *step) for step in program))


def _steps(architecture: int, clone: int, unshare: int) -> list[Instruction]:
    rest: list[Instruction] = [
        (_LOAD, 0, 0, _NUMBER),
        (_AND, 0, 0, _NOT_X32),
        (_EQUALS, 5, 0, CLONE3),
        (_EQUALS, 1, 0, unshare),
        (_EQUALS, 0, 4, clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_HAS, 0, 2, NEW_USER),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
        (_RETURN, 0, 0, _ALLOW),
    ]
    ours: list[Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUALS, 0, len(rest), architecture)]
    return ours + rest
