"""A small fake launchd as one program: jobs are loaded, started, killed and printed.

It keeps a folder, `$XDG_RUNTIME_DIR/launchd`, with a file for each job that is loaded, and starts
the real program of a job, watched by a process of its own that starts it again as `KeepAlive` has
it. Each call is a line in `$XDG_RUNTIME_DIR/calls`.
"""

import fcntl
import json
import os
import plistlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

RUNTIME = Path(os.environ["XDG_RUNTIME_DIR"])
JOBS = RUNTIME / "launchd"
NOT_FOUND, IN_PROGRESS = 113, 37


def main() -> None:
    with (RUNTIME / "calls").open("a") as calls:
        calls.write(json.dumps(["launchctl", *sys.argv[1:]]) + "\n")
    JOBS.mkdir(exist_ok=True)
    verb, *rest = sys.argv[1:]
    if verb == "keep":
        keep(JOBS / rest[0])
        return
    VERBS[verb](rest)


def bootstrap(rest: list[str]) -> None:
    domain, file = rest
    job = plistlib.loads(Path(file).read_bytes())
    record = JOBS / job["Label"]
    if record.exists():
        sys.exit(IN_PROGRESS)
    write(record, {"job": job, "domain": domain, "state": "not running", "pid": 0, "runs": 0})
    if job.get("RunAtLoad"):
        start(record)


def kickstart(rest: list[str]) -> None:
    record = loaded(rest[-1])
    if "-k" in rest and (pid := read(record)["pid"]):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        return  # its keeper starts it again
    if not read(record)["pid"]:
        start(record)


def bootout(rest: list[str]) -> None:
    record = loaded(rest[-1])
    with changing():
        known = read(record)
        record.rename(record.with_suffix(".gone"))
    if known["pid"]:
        end(known["pid"], known["job"].get("ExitTimeOut", 20))


def show(rest: list[str]) -> None:
    record = loaded(rest[-1])
    known = read(record)
    pid = f"\tpid = {known['pid']}\n" if known["pid"] else ""
    print(f"{rest[-1]} = {{\n\tstate = {known['state']}\n{pid}\truns = {known['runs']}\n}}")


def enable(rest: list[str]) -> None:
    """It is remembered across boots; there is no boot here."""


def keep(record: Path) -> None:
    """What launchd does for one job: start it, and again, as its `KeepAlive` has it."""
    job = read(record)["job"]
    while (process := start_job(record, job)) is not None:
        began = time.monotonic()
        code = process.wait()
        change(record, state="not running", pid=0)  # first: a reader of the event may start it
        with (RUNTIME / "events").open("a") as events:
            events.write(f"exited {code}\n")
        if not (job["KeepAlive"] == {"SuccessfulExit": False} and code != 0):
            return
        throttle = job["ThrottleInterval"] / float(os.environ["FAKE_SPEED"])
        time.sleep(max(0.0, throttle - (time.monotonic() - began)))


def start_job(record: Path, job: dict[str, Any]) -> "subprocess.Popen[bytes] | None":
    """Start the job and record it under one lock; None if it was unloaded."""
    with changing(), open(job["StandardErrorPath"], "ab") as output:
        if not record.exists():
            return None
        process = subprocess.Popen(
            job["ProgramArguments"],
            env={**os.environ, **job["EnvironmentVariables"], "XPC_SERVICE_NAME": job["Label"]},
            cwd=job["WorkingDirectory"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        known = read(record)
        runs = known["runs"] + 1
        write(record, {**known, "state": "running", "pid": process.pid, "runs": runs})
        return process


def start(record: Path) -> None:
    subprocess.Popen(
        [sys.executable, "-IS", __file__, "keep", record.name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not read(record)["runs"]:
        time.sleep(0.01)


def end(pid: int, timeout: float) -> None:
    until = time.monotonic() + timeout
    with suppress(
        ProcessLookupError
    ):  # it has ended by itself, which its keeper is about to record
        os.kill(pid, signal.SIGTERM)
        while alive(pid):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def loaded(target: str) -> Path:
    record = JOBS / target.rpartition("/")[2]
    if not record.exists():
        print(f'Could not find service "{record.name}" in domain', file=sys.stderr)
        sys.exit(NOT_FOUND)
    return record


def read(record: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.read_text())
    return found


@contextmanager
def changing() -> Iterator[None]:
    """One at a time: a job that is unloaded must not come back by what its keeper writes down."""
    with (RUNTIME / "launchd.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def change(record: Path, **facts: object) -> None:
    with changing():
        if record.exists():
            write(record, {**read(record), **facts})


def write(record: Path, facts: dict[str, object]) -> None:
    draft = record.with_suffix(".new")
    draft.write_text(json.dumps(facts))
    draft.replace(record)


VERBS = {
    "bootstrap": bootstrap,
    "bootout": bootout,
    "kickstart": kickstart,
    "print": show,
    "enable": enable,
}

main()
