"""The supervisor that started this process: which one it is, notifications to it, and restarts.

Notifications follow sd_notify: readiness, status, watchdog keep-alives, sockets to store.
"""

import array
import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import msgspec

from holdfast.core.config.settings import SupervisorChoice
from holdfast.core.errors import HoldfastError

UNIT_VARIABLE, SCOPE_VARIABLE, BOOT_VARIABLE = "HOLDFAST_UNIT", "HOLDFAST_SCOPE", "HOLDFAST_BOOT"
SYSTEMCTL_TIMEOUT = 2.0  # seconds; it only queues the restart

_SUPERVISOR_PROCESSES = frozenset({"s6-supervise", "runsv", "supervise"})
_OWN_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")  # not for our child processes
_MAX_STATUS = 200  # characters of a status line


class SupervisorUnreachable(HoldfastError):
    """The supervisor cannot be reached."""


class CurrentUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The systemd unit of a process, and whether it is a user's unit."""

    name: str
    user: bool


def detect_supervisor(
    choice: SupervisorChoice, environ: Mapping[str, str], *, pid: int, parent: str
) -> SupervisorChoice:
    """The actual supervisor, never AUTO. `parent`: the name of the parent process."""
    if choice is not SupervisorChoice.AUTO:
        return choice
    if _is_systemd(environ, pid):
        return SupervisorChoice.SYSTEMD
    if BOOT_VARIABLE in environ or pid == 1:
        return SupervisorChoice.CONTAINER
    if parent in _SUPERVISOR_PROCESSES:
        return SupervisorChoice.S6
    if _is_launchd(environ):
        return SupervisorChoice.LAUNCHD
    return SupervisorChoice.NONE


def _is_systemd(environ: Mapping[str, str], pid: int) -> bool:
    """Processes that a service starts, such as a terminal's shell, inherit its variables. One of
    them has the pid that systemd itself started, except in old versions."""
    return "INVOCATION_ID" in environ and environ.get("SYSTEMD_EXEC_PID", str(pid)) == str(pid)


def _is_launchd(environ: Mapping[str, str]) -> bool:
    """Programs that a person opened have such a name too, or "0"."""
    name = environ.get("XPC_SERVICE_NAME", "0")
    return name != "0" and not name.startswith("application.")


def parent_name(pid: int | None = None) -> str:
    """The name of our parent process, from the kernel; "": unknown."""
    try:
        return Path(f"/proc/{pid or os.getppid()}/comm").read_text().strip()
    except OSError:
        return ""


def current_unit(environ: Mapping[str, str], *, cgroup: str) -> CurrentUnit | None:
    """The unit of this process, from the variable of our units, else from its cgroup."""
    if name := environ.get(UNIT_VARIABLE):
        return CurrentUnit(name=name, user=environ.get(SCOPE_VARIABLE) == "user")
    *parents, name = cgroup.strip().rpartition("::")[2].split("/")
    if not name.endswith(".service"):
        return None
    return CurrentUnit(name=name, user=any(each.startswith("user@") for each in parents))


def read_own_cgroup() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


async def request_systemd_restart(unit: CurrentUnit | None, environ: Mapping[str, str]) -> None:
    """Request a restart of the unit without waiting for it: the restart waits for our own end.

    Raises `SupervisorUnreachable`.
    """
    if unit is None:
        raise SupervisorUnreachable(
            "systemd started this process, but the name of its unit is unknown. Restart the unit "
            "yourself"
        )
    command = ["systemctl", *(["--user"] if unit.user else []), "--no-block", "restart", unit.name]
    try:
        async with asyncio.timeout(SYSTEMCTL_TIMEOUT):
            await _run_systemctl(command, environ)
    except TimeoutError:
        raise SupervisorUnreachable(
            "`{command}` took longer than {systemctl_timeout:g} s. Check whether systemd responds: "
            "`systemctl status`",
            command=" ".join(command),
            systemctl_timeout=SYSTEMCTL_TIMEOUT,
        ) from None
    except OSError as error:
        raise SupervisorUnreachable(
            "`{command}` cannot be started: {error}. Restart the unit yourself",
            command=" ".join(command),
            error=error.strerror,
        ) from None


async def _run_systemctl(command: list[str], environ: Mapping[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={name: value for name, value in environ.items() if name not in _OWN_VARIABLES},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, errors = await process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        text = errors.decode(errors="replace").strip() or "it printed no reason"
        raise SupervisorUnreachable(
            "`{command}` failed with exit code {returncode}: {text}. Restart the unit yourself",
            command=" ".join(command),
            returncode=process.returncode,
            text=text,
        )


class SdNotifier:
    """Owns the socket to the supervisor (`NOTIFY_SOCKET`). Without one, or if it is not read,
    nothing happens: a supervisor must not block the gateway."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if name.startswith(("@", "/")):
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_UNIX, kind)

    def notify(self, *facts: str, fds: Sequence[int] = (), timeout: float = 0.0) -> None:
        """`facts` are assignments ("READY=1"); `fds` are sent with them, to be stored.

        Waits for a slow supervisor at most `timeout` seconds, then drops the message. That is fine
        for everything that is sent repeatedly.
        """
        if self._socket is None:
            return
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        text = "\n".join(facts).encode()
        self._socket.settimeout(timeout)
        with suppress(OSError):  # it has ended, or does not read
            self._socket.sendmsg([text], [rights] if fds else [], 0, self._address)

    def status(self, text: str) -> None:
        self.notify(f"STATUS={' '.join(text.split())[:_MAX_STATUS]}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class WatchdogKeepalive:
    """Sends the supervisor's watchdog keep-alives while its context is open, from the event loop
    only: they prove that the loop runs."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, notifier: SdNotifier, *, interval: float | None
    ) -> None:
        self._loop = loop
        self._notifier = notifier
        self._interval = interval
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        if self._interval is not None:
            self._send(self._interval)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _send(self, interval: float) -> None:
        self._notifier.notify("WATCHDOG=1")
        self._timer = self._loop.call_later(interval, self._send, interval)


def keepalive_interval(environ: Mapping[str, str], *, pid: int) -> float | None:
    """Seconds between two keep-alives, half of the watchdog's timeout; None: no watchdog."""
    usec = environ.get("WATCHDOG_USEC", "")
    watched = environ.get("WATCHDOG_PID", str(pid))
    if watched != str(pid) or not usec.isascii() or not usec.isdigit() or not int(usec):
        return None
    return int(usec) / 2e6
