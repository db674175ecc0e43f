"""Launching: a runner is started in a process tree that its gateway's death does not touch."""

import json
import os
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.errors import RunnerError
from holdfast.runner.paths import Label, Place, bind
from holdfast.runner.sandbox import (
    MB,
    PROGRAM,
    SPOOL,
    SYSTEM_PATH,
    WORKSPACE,
    Plan,
    enclosure,
    user_for,
)

START_TIMEOUT = 30.0
DESCRIPTORS = 4096
BOOT = "import sys; sys.path.insert(0, sys.argv[2]); from program.main import main; main()"
# The shell ends at once, so that the runner belongs to init from its first moment on.
DETACH = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


def environment(home: str) -> dict[str, str]:
    """All that a command inherits: built from nothing."""
    return {
        "PATH": SYSTEM_PATH,
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "TMPDIR": "/tmp",
    }


def launch(
    place: Place, plan: Plan, settings: RunnerSettings, *, wrapper: Sequence[str] = ()
) -> int:
    """Start a runner, wait until it listens, and return the outer pid. Blocks."""
    user = None
    if plan.sandboxed and os.geteuid() == 0:
        user = user_for(place.session_id, Path("/proc/self/uid_map").read_text())
    place.make(owner=user)
    label = Label(session_id=place.session_id, sandboxed=plan.sandboxed)
    place.label.write_bytes(msgspec.json.encode(label))
    listener = bind(place.socket)
    heard, said = os.pipe()
    # Told by a descriptor, so that `ps` inside the sandbox stays readable.
    config = os.memfd_create("config")
    try:
        facts = _config(place, plan, settings, user, (listener.fileno(), said))
        os.write(config, json.dumps(facts).encode())
        os.lseek(config, 0, os.SEEK_SET)
        inside = [plan.python, "-I", "-S", "-c", BOOT, str(config)]
        if plan.sandboxed:
            _write_names(place, user if user is not None else os.getuid())
            argv = [*wrapper, *enclosure(plan, settings, place), *inside, PROGRAM]
        else:
            argv = [*wrapper, *inside, str(plan.program)]
        outer = _spawn(argv, place, (listener.fileno(), said, config))
    finally:
        listener.close()
        os.close(said)
        os.close(config)
    try:
        _await_ready(heard, place)
    finally:
        os.close(heard)
    return outer


def _config(
    place: Place, plan: Plan, settings: RunnerSettings, user: int | None, fds: tuple[int, int]
) -> dict[str, Any]:
    workspace = WORKSPACE if plan.sandboxed else str(place.workspace)
    return {
        "workspace": workspace,
        "spool": SPOOL if plan.sandboxed else str(place.spool),
        "listen_fd": fds[0],
        "ready_fd": fds[1],
        "uid": user,
        "sandboxed": plan.sandboxed,
        "environment": environment(workspace),
        "output_bytes": settings.output_kb * 1024,
        "idle_timeout": settings.idle_timeout,
        "workspace_bytes": settings.workspace_mb * MB,
        "limits": {
            # Without a sandbox the kernel would count all that this user runs anywhere.
            "processes": settings.processes if plan.sandboxed else None,
            "memory": settings.memory_mb * MB,
            "file": settings.file_mb * MB,
            "core": 0,
            "descriptors": DESCRIPTORS,
        },
    }


def _write_names(place: Place, user: int) -> None:
    """The sandbox's own passwd and group: the names of people outside are no business of it."""
    passwd = f"root:x:0:0::/:/bin/sh\nagent:x:{user}:{user}::{WORKSPACE}:/bin/bash\n"
    (place.run / "passwd").write_text(passwd + "nobody:x:65534:65534::/:/bin/false\n")
    (place.run / "group").write_text(f"root:x:0:\nagent:x:{user}:\nnogroup:x:65534:\n")
    for name in ("passwd", "group"):
        (place.run / name).chmod(0o644)


def _spawn(argv: list[str], place: Place, fds: tuple[int, ...]) -> int:
    started = subprocess.run(
        ["/bin/sh", "-c", DETACH, "sh", str(place.log), *argv],
        env=environment("/"),
        cwd="/",
        pass_fds=fds,
        start_new_session=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(started.stdout)


def _await_ready(heard: int, place: Place) -> None:
    poll = select.poll()  # not `select`, which knows only the first 1024 descriptors
    poll.register(heard, select.POLLIN)
    ready = poll.poll(START_TIMEOUT * 1000)
    if ready and os.read(heard, 1):
        return
    what = "did not start" if ready else f"was not ready after {START_TIMEOUT:.0f} s"
    said = place.log.read_text(errors="replace")[-2000:].strip() if place.log.exists() else ""
    raise RunnerError(
        f"the runner of session {place.session_id} {what}: {said or 'no word of why'}"
    )
