"""The supervisor that started this process: which one it is, what it is told, how it restarts us.

What it is told follows sd_notify: readiness, status, watchdog keep-alives, sockets to store.
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
SYSTEMCTL_TIMEOUT = 2.0  # seconds; it is asked to queue the work, not to do it

_SUPERVISOR_PROCESSES = frozenset({"s6-supervise", "runsv", "supervise"})
_OWN_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")  # for no program we start


class SupervisorUnreachable(HoldfastError):
    """The supervisor could not be asked."""


class CurrentUnit(msgspec.Struct, frozen=True, kw_only=True):
    """The unit of systemd that a process is, and whose that is."""

    name: str
    user: bool


def detect_supervisor(
    choice: SupervisorChoice, environ: Mapping[str, str], *, pid: int, parent: str
) -> SupervisorChoice:
    """Who it is, never AUTO. `parent`: the name of the process that started this one."""
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
    """What a service starts inherits its variables, a terminal's shell for one. The pid that
    systemd itself started is named in one of them, by all but old ones."""
    return "INVOCATION_ID" in environ and environ.get("SYSTEMD_EXEC_PID", str(pid)) == str(pid)


def _is_launchd(environ: Mapping[str, str]) -> bool:
    """Programs that a person opened have a name of that kind too, or "0"."""
    name = environ.get("XPC_SERVICE_NAME", "0")
    return name != "0" and not name.startswith("application.")


def parent_name(pid: int | None = None) -> str:
    """What the kernel calls our parent; "": it does not say."""
    try:
        return Path(f"/proc/{pid or os.getppid()}/comm").read_text().strip()
    except OSError:
        return ""


def current_unit(environ: Mapping[str, str], *, cgroup: str) -> CurrentUnit | None:
    """The unit that this process is: named by itself, else by where the kernel has put us."""
    if name := environ.get(UNIT_VARIABLE):
        return CurrentUnit(name=name, user=environ.get(SCOPE_VARIABLE) == "user")
    places = cgroup.strip().rpartition("::")[2].split("/")
    if not places[-1].endswith(".service"):
        return None
    above = places[:-1]
    return CurrentUnit(name=places[-1], user=any(place.startswith("user@") for place in above))


def read_own_cgroup() -> str:
    try:
        return Path("/proc/self/cgroup").read_text()
    except OSError:
        return ""


async def request_systemd_restart(unit: CurrentUnit | None, environ: Mapping[str, str]) -> None:
    """Ask for a restart of the unit and do not wait for it: it waits for our own end.

    Raises `SupervisorUnreachable`.
    """
    if unit is None:
        raise SupervisorUnreachable(
            "systemd started this process, but the name of its unit is not known"
        )
    command = ["systemctl", *(["--user"] if unit.user else []), "--no-block", "restart", unit.name]
    try:
        async with asyncio.timeout(SYSTEMCTL_TIMEOUT):
            await _run_systemctl(command, environ)
    except TimeoutError:
        raise SupervisorUnreachable(
            f"`{' '.join(command)}` took longer than {SYSTEMCTL_TIMEOUT:g} s"
        ) from None
    except OSError as error:
        raise SupervisorUnreachable(
            f"`{' '.join(command)}` cannot be started: {error.strerror}"
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
        _, told = await process.communicate()
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        text = told.decode(errors="replace").strip()
        raise SupervisorUnreachable(
            f"`{' '.join(command)}` failed with {process.returncode}: {text}"
        )


_MAX_STATUS = 200  # a status line is looked at, not read


class SdNotifier:
    """Owns the socket to the supervisor (`NOTIFY_SOCKET`). Where there is none, or it does not
    listen, nothing happens: nobody who supervises may hold up what is supervised."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        name = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name
        self._socket: socket.socket | None = None
        if name.startswith(("@", "/")):
            kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
            self._socket = socket.socket(socket.AF_UNIX, kind)

    def notify(self, *facts: str, fds: Sequence[int] = (), timeout: float = 0.0) -> None:
        """`facts` are assignments ("READY=1"); `fds` are given along, for it to keep.

        One that is slow to listen is waited for at most `patience` seconds; what it has no room
        for is dropped, which is right for all but what is said once.
        """
        if self._socket is None:
            return
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        text = "\n".join(facts).encode()
        self._socket.settimeout(timeout)
        with suppress(OSError):  # it went away, or does not read what it is told
            self._socket.sendmsg([text], [rights] if fds else [], 0, self._address)

    def status(self, text: str) -> None:
        self.notify(f"STATUS={' '.join(text.split())[:_MAX_STATUS]}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class WatchdogKeepalive:
    """Feeds the supervisor's watchdog while its context is open, on the event loop and nowhere
    else: what is fed is the proof that the loop turns."""

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
    """Seconds between two feedings, half of what is asked for; None: nobody watches this pid."""
    asked = environ.get("WATCHDOG_USEC", "")
    watched = environ.get("WATCHDOG_PID", str(pid))
    if watched != str(pid) or not asked.isascii() or not asked.isdigit() or not int(asked):
        return None
    return int(asked) / 2e6
