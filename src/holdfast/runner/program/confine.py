"""Confinement: what the runner gives up before it serves, and the limits of what it starts."""

from __future__ import annotations

import os
import resource
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
        wanted = int(limits[name])
        hard = resource.getrlimit(number)[1]
        if hard != resource.RLIM_INFINITY:
            wanted = min(wanted, hard)
        resource.setrlimit(number, (wanted, wanted))
    os.nice(NICENESS)
    try:
        with open("/proc/self/oom_score_adj", "wb") as file:
            file.write(OOM_SCORE)
    except OSError:
        return
