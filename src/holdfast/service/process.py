"""A process as the kernel knows it: alive or not, and since when."""

from pathlib import Path


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
