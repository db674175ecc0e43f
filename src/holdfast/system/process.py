"""Facts about processes from the kernel: start time, pidfd, whether one has ended.

Also how to call this program again.
"""

import os
import select
import stat
import sys
from pathlib import Path

from holdfast.core.errors import HoldfastError


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to this process's start; None: there is no such process.

    A pid alone names nobody, for the kernel gives it out again; with this it does.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in brackets and may hold anything, so the fields are counted after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    dead = fields[0] in ("Z", "X")
    return None if dead else int(fields[19])


def open_pidfd(pid: int, *, expected_start: int | None) -> int | None:
    """A file descriptor of this very process, which no successor to its pid can be taken for;
    None: it has gone."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Looked at while the descriptor holds it: a pid that was given out again started later.
    if start_time(pid) != expected_start:
        os.close(fd)
        return None
    return fd


def has_ended(fd: int, *, timeout: float) -> bool:
    """True once the process of this descriptor has ended; False if it takes longer."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))


def holdfast_command() -> tuple[str, ...]:
    """The `holdfast` beside the interpreter that runs, else that interpreter with our package."""
    beside = Path(sys.executable).with_name("holdfast")
    if os.access(beside, os.X_OK):
        return (str(beside),)
    if not sys.executable:
        raise HoldfastError(
            "this interpreter does not know where it is; call holdfast by its full path"
        )
    return (sys.executable, "-m", "holdfast.cli")


def is_setuid(program: str | None) -> bool:
    """Whether a program takes its owner's rights, which `NoNewPrivileges` would keep from it."""
    return program is not None and bool(os.stat(program).st_mode & stat.S_ISUID)
