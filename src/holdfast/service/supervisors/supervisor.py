"""Supervisors: who starts this process again when it has ended, and how they are asked to."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

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
