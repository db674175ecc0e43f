"""Starts a runner in a process tree that outlives the gateway, in its own systemd scope where
there is systemd."""

import hashlib
import json
import logging
import os
import re
import select
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.core.errors import RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import Clock
from holdfast.runner.bubblewrap import (
    EGRESS,
    MB,
    PROGRAM,
    SPOOL,
    WORKSPACE,
    ConfinementPlan,
    session_bwrap_arguments,
    session_uid,
)
from holdfast.runner.cgroups import enter_command, scope_properties
from holdfast.runner.paths import RunnerLabel, SessionPaths, bind_socket
from holdfast.system.bubblewrap import SYSTEM_PATH

log = logging.getLogger(__name__)

START_TIMEOUT = 30.0
MAX_DESCRIPTORS = 4096
BOOT_CODE = "import sys; sys.path.insert(0, sys.argv[2]); from program.main import main; main()"
# The shell exits at once, so that init is the runner's parent from the start.
DETACH_SCRIPT = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'
SCOPE_NAME = "holdfast-runner"
RETRY_AFTER = 600.0  # seconds; a systemd that is slow to fail must not slow down every command

# What systemd-run needs to find its systemd; the runner must not get it.
_BUS_VARIABLES = ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_]+")
_CONSEQUENCE = (
    "it runs inside the gateway's own unit: a restart or crash of the gateway kills it with all its"
    " processes, and their outcome is unknown to the agent"
)


class SystemdScopes:
    """Puts each runner into a systemd scope, outside of the gateway's unit, whose stop would kill
    it. Owns the time of the last failure."""

    def __init__(self, home: Path, prefix: Sequence[str], *, clock: Clock) -> None:
        """`prefix` is the command line of `systemd-run` up to the name of the scope; []: there is
        no systemd-run, which is logged with the first runner."""
        self._home_digest = hashlib.sha256(str(home).encode()).hexdigest()[:8]
        self._prefix, self._clock = prefix, clock
        self._failed_at: float | None = None

    def wrapper(self, session_id: SessionId, settings: RunnerSettings) -> list[str]:
        """The arguments before a runner's command line, with the limits of a session; []: it has
        failed recently."""
        failed = self._failed_at
        if failed is not None and self._clock.monotonic() - failed < RETRY_AFTER:
            return []
        if not self._prefix:
            self.report_failure("systemd-run is not installed")
            return []
        name = _UNSAFE_CHARACTERS.sub("_", session_id)[-60:]
        # A scope's name is in use while a process is left in it, so each runner has its own.
        moment = f"{self._clock.now() * 1000:.0f}"
        unit = f"--unit={SCOPE_NAME}-{self._home_digest}-{name}-{moment}"
        unset = [word for name in _BUS_VARIABLES for word in ("-u", name)]
        limits = scope_properties(settings)
        return [*self._prefix, unit, *limits, "--", "/usr/bin/env", *unset]

    def report_failure(self, why: str) -> None:
        """Log that a runner had to start without a scope, and the consequence."""
        self._failed_at = self._clock.monotonic()
        log.warning(
            "Runner started without a systemd scope (%s), so %s.",
            " ".join(why.split()),
            _CONSEQUENCE,
            extra={"action": "runner_without_scope"},
        )


def systemd_run_prefix(environ: Mapping[str, str], *, user_unit: bool, uid: int) -> list[str]:
    """The `systemd-run` command of a gateway that runs in a unit; []: it is not installed.

    Root uses the system's systemd. Other users use their own, also from a unit of the system: that
    works if it runs without a login (`loginctl enable-linger`).
    """
    program = shutil.which("systemd-run", path=environ.get("PATH", ""))
    if program is None:
        return []
    bus = {name: environ[name] for name in _BUS_VARIABLES if name in environ}
    manager = "--user" if user_unit or uid else "--system"
    if manager == "--user":
        bus.setdefault("XDG_RUNTIME_DIR", f"/run/user/{uid}")
    variables = [f"{name}={value}" for name, value in bus.items()]
    return ["/usr/bin/env", *variables, program, manager, "--scope", "--collect", "--quiet"]


# A loopback that only the session has: the port is the same for all. curl reads the lower case,
# others the upper case. ALL_PROXY names no SOCKS proxy, because some clients have a library for
# that only if it was asked for. Servers that a session starts itself are reached directly.
PROXY_PORT = 3128
_PROXY_URL = f"http://127.0.0.1:{PROXY_PORT}"
_PROXY_NAMES = {
    "http_proxy": _PROXY_URL,
    "https_proxy": _PROXY_URL,
    "all_proxy": _PROXY_URL,
    "no_proxy": "localhost,127.0.0.1,::1",
}
PROXY_VARIABLES = {
    **_PROXY_NAMES,
    **{name.upper(): value for name, value in _PROXY_NAMES.items()},
    "NODE_USE_ENV_PROXY": "1",
}


def command_environment(home: str) -> dict[str, str]:
    """The whole environment of a command but the proxy; nothing is inherited from the gateway."""
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


def launch_runner(
    paths: SessionPaths,
    plan: ConfinementPlan,
    settings: RunnerSettings,
    *,
    wrapper: Sequence[str] = (),
    cgroups: Sequence[str] = (),
) -> int:
    """Start a runner, in these cgroups, wait until it listens, and return the outer pid. Blocks."""
    user = None
    if plan.sandboxed and os.geteuid() == 0:
        user = session_uid(paths.session_id, Path("/proc/self/uid_map").read_text())
    paths.create(owner=user)
    label = RunnerLabel(
        session_id=paths.session_id,
        sandboxed=plan.sandboxed,
        network=settings.network if plan.sandboxed else NetworkMode.HOST,
        cgroups=tuple(cgroups),
    )
    paths.label.write_bytes(msgspec.json.encode(label))
    wrapper = [*wrapper, *enter_command(cgroups)]
    listener = bind_socket(paths.socket)
    ready_read, ready_write = os.pipe()
    # Passed as a descriptor, so that `ps` inside the sandbox stays readable.
    config = os.memfd_create("config")
    try:
        values = _runner_config(paths, plan, settings, user, (listener.fileno(), ready_write))
        os.write(config, json.dumps(values).encode())
        os.lseek(config, 0, os.SEEK_SET)
        inside = [plan.python, "-I", "-S", "-c", BOOT_CODE, str(config)]
        if plan.sandboxed:
            _write_passwd(paths, user if user is not None else os.getuid())
            if plan.internet is not None:
                _write_resolver(paths, plan.internet)
            argv = [*wrapper, *session_bwrap_arguments(plan, settings, paths), *inside, PROGRAM]
        else:
            argv = [*wrapper, *inside, str(plan.program)]
        outer = _spawn(argv, paths, (listener.fileno(), ready_write, config))
    finally:
        listener.close()
        os.close(ready_write)
        os.close(config)
    try:
        _await_ready(ready_read, paths)
    finally:
        os.close(ready_read)
    return outer


def _runner_config(
    paths: SessionPaths,
    plan: ConfinementPlan,
    settings: RunnerSettings,
    user: int | None,
    fds: tuple[int, int],
) -> dict[str, Any]:
    workspace = WORKSPACE if plan.sandboxed else str(paths.workspace)
    proxied = plan.sandboxed and settings.network is NetworkMode.PROXY
    return {
        "workspace": workspace,
        "spool": SPOOL if plan.sandboxed else str(paths.spool),
        "listen_fd": fds[0],
        "ready_fd": fds[1],
        "uid": user,
        "sandboxed": plan.sandboxed,
        "protected": None if plan.sandboxed else str(paths.home),
        "environment": command_environment(workspace) | (PROXY_VARIABLES if proxied else {}),
        "egress": {
            "socket": f"{EGRESS}/sock" if proxied else "",
            "port": PROXY_PORT,
            "variables": PROXY_VARIABLES,
        },
        "output_bytes": settings.output_kb * 1024,
        "idle_timeout": settings.idle_timeout,
        "workspace_bytes": settings.workspace_mb * MB,
        "workspace_files": settings.workspace_files,
        "limits": {
            # Without a sandbox the kernel would count all processes of this user.
            "processes": settings.processes if plan.sandboxed else None,
            "memory": settings.memory_mb * MB,
            "file": settings.file_mb * MB,
            "core": 0,
            "descriptors": MAX_DESCRIPTORS,
        },
    }


def _write_passwd(paths: SessionPaths, user: int) -> None:
    """The sandbox's own passwd and group, without the users of the host."""
    passwd = f"root:x:0:0::/:/bin/sh\nagent:x:{user}:{user}::{WORKSPACE}:/bin/bash\n"
    (paths.run_folder / "passwd").write_text(passwd + "nobody:x:65534:65534::/:/bin/false\n")
    (paths.run_folder / "group").write_text(f"root:x:0:\nagent:x:{user}:\nnogroup:x:65534:\n")
    for name in ("passwd", "group"):
        (paths.run_folder / name).chmod(0o644)


def _write_resolver(paths: SessionPaths, tool: str) -> None:
    from holdfast.runner.program.internet import NETWORKS  # noqa: PLC0415 - few sandboxes have this network

    file = paths.run_folder / "resolv.conf"
    file.write_text(f"nameserver {NETWORKS[Path(tool).name].name_server}\n")
    file.chmod(0o644)


def _spawn(argv: list[str], paths: SessionPaths, fds: tuple[int, ...]) -> int:
    started = subprocess.run(
        ["/bin/sh", "-c", DETACH_SCRIPT, "sh", str(paths.log), *argv],
        env=command_environment("/"),
        cwd="/",
        pass_fds=fds,
        start_new_session=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(started.stdout)


def _await_ready(fd: int, paths: SessionPaths) -> None:
    poll = select.poll()  # not `select`, which is limited to the first 1024 descriptors
    poll.register(fd, select.POLLIN)
    ready = poll.poll(START_TIMEOUT * 1000)
    if ready and os.read(fd, 1):
        return
    what = "did not start" if ready else f"was not ready after {START_TIMEOUT:.0f} s"
    output = paths.log.read_text(errors="replace")[-2000:].strip() if paths.log.exists() else ""
    raise RunnerError(
        "the runner of session {session_id} {what}: {output}",
        session_id=paths.session_id,
        what=what,
        output=output or "no output",
    )
