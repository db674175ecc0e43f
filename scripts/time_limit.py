"""Runs a command with a time limit: `time_limit.py SECONDS COMMAND…`.

When the limit is reached, it prints every process of the command and the stacks of those that run
pytest, kills all of them, also those that left the process group, and exits with 124, as timeout(1)
does. Otherwise, it exits with the command's own code.

Time that the host of a virtual machine withholds from it does not count, up to 1.5 times the limit:
a slow host is no hang. Linux reports it as "steal".
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

TIMED_OUT = 124
DUMP_SECONDS = 3.0  # time for the stacks to be written before the processes are killed
PR_SET_CHILD_SUBREAPER = 36
MAX_STOLEN = 1.5  # times the limit


def main() -> int:
    limit, command = float(sys.argv[1]), sys.argv[2:]
    # Orphaned grandchildren become our children instead of init's, so none is missed.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = subprocess.Popen(command)
    # The run as a whole can be interrupted or terminated: then the command is, too.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: os.kill(child.pid, received))
    try:
        return wait(child.pid, limit)
    except TimeoutError as error:
        print(f"\n{' '.join(command)}: not done after {error}.", file=sys.stderr)
    dump_stacks()
    kill_all()
    return TIMED_OUT


def wait(child: int, limit: float) -> int:
    """Wait for the command. Orphans are reaped meanwhile: a zombie would look alive to a test."""

    began, stolen_before = time.monotonic(), stolen_seconds()

    def time_out(*_: object) -> None:
        stolen = min(stolen_seconds() - stolen_before, MAX_STOLEN * limit)
        left = limit + stolen - (time.monotonic() - began)
        if left > 0:
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        withheld = f" and {stolen:.0f} s that the host withheld" if stolen >= 1 else ""
        raise TimeoutError(f"{limit:g} s{withheld}")

    signal.signal(signal.SIGALRM, time_out)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        while True:
            pid, status = os.waitpid(-1, 0)
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                return 128 - code if code < 0 else code
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def stolen_seconds(stat: Path = Path("/proc/stat")) -> float:
    """How long the processors of this machine, on average, waited for their host; 0 elsewhere."""
    try:
        fields = stat.read_text().splitlines()[0].split()
        return int(fields[8]) / os.sysconf("SC_CLK_TCK") / (os.cpu_count() or 1)
    except (OSError, IndexError, ValueError):
        return 0.0


def dump_stacks() -> None:
    """Print what runs. pytest enables faulthandler, which prints all stacks on SIGABRT."""
    running = descendants()
    for pid in running:
        command = read(pid, "cmdline").replace("\0", " ")[:200]
        print(f"{pid}: {command} (waits in {read(pid, 'wchan') or '-'})", file=sys.stderr)
    sys.stderr.flush()
    for pid in running:
        if "python" in read(pid, "comm") or "pytest" in read(pid, "cmdline"):
            signal_one(pid, signal.SIGABRT)
    time.sleep(DUMP_SECONDS)


def kill_all() -> None:
    """Kill until none is left: a process may start another while its siblings are killed."""
    while running := descendants():
        for pid in running:
            signal_one(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


def descendants() -> list[int]:
    """Every process below this one, parents before their children."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := read(int(folder.name), "stat")):
            # The name of the program is in parentheses and may contain spaces.
            parent = int(stat.rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(folder.name))
    found = [os.getpid()]
    for pid in found:
        found.extend(parents.get(pid, ()))
    return found[1:]


def read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""  # it has ended


def signal_one(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    sys.exit(main())
