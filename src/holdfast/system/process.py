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

    A pid alone does not identify a process, since the kernel reuses it; together with this it does.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name is in brackets and may contain anything, so the fields are counted after it.
    fields = stat[stat.rindex(")") + 2 :].split()
    dead = fields[0] in ("Z", "X")
    return None if dead else int(fields[19])


def open_pidfd(pid: int, *, expected_start: int | None) -> int | None:
    """A descriptor of exactly this process, never of another one with a reused pid; None: it has
    ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # Checked while the descriptor holds it: a process with a reused pid has started later.
    if start_time(pid) != expected_start:
        os.close(fd)
        return None
    return fd


def has_ended(fd: int, *, timeout: float) -> bool:
    """Wait for the end of the process; False if it takes longer than `timeout`."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))


def holdfast_command() -> tuple[str, ...]:
    """The `holdfast` next to the running interpreter, else that interpreter with our package."""
    beside = Path(sys.executable).with_name("holdfast")
    if os.access(beside, os.X_OK):
        return (str(beside),)
    if not sys.executable:
        raise HoldfastError(
            "the Python interpreter does not know its own path. Call holdfast by its full path"
        )
    return (sys.executable, "-m", "holdfast.cli")


def is_setuid(program: str | None) -> bool:
    """Whether a program is setuid, which `NoNewPrivileges` would prevent."""
    return program is not None and bool(os.stat(program).st_mode & stat.S_ISUID)
