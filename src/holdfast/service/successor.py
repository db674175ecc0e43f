"""The successor of a gateway: checked before a restart, started by a respawner, or kept on standby.

A standby successor has read and imported everything, and waits for the go signal. It inherits one
end of a channel to the running gateway and reports there whether it would start; the go signal
lets it wait for the lock of the home; when the channel closes without one, it exits.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.errors import HoldfastError, RestartRefused
from holdfast.service.child_process import FIRST_WAIT, MAX_WAIT
from holdfast.service.respawner import RespawnOrder
from holdfast.system.paths import Paths, private_dir
from holdfast.system.sockets import LISTEN_VARIABLES

CHECK_TIMEOUT = 30.0

# Variables for this process alone: its descriptors, and its connection to the supervisor.
_OWN_VARIABLES = frozenset({*LISTEN_VARIABLES, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
_MAX_ERROR_CHARS = 2000
_GO = b"go\n"
_MAX_REPORT_BYTES = 64 * 1024


def module_command() -> list[str]:
    """The command that runs this program again, with the same interpreter."""
    return [sys.executable, "-m", "holdfast.cli"]


def successor_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a successor: ours, without the variables for this process alone."""
    return {name: value for name, value in environ.items() if name not in _OWN_VARIABLES}


async def check_successor(
    home: Path,
    *,
    environ: Mapping[str, str],
    schema: int = 0,
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    timeout: float = CHECK_TIMEOUT,  # noqa: ASYNC109 - the process is killed when it is over
) -> None:
    """Check whether the code and the configuration that are on disk now would start.

    Raises `RestartRefused` with the reason and the remedy. The check is a process of its own, which
    takes no lock and opens no store: the running gateway is not touched. `schema` is the version of
    the store's tables, which the successor must know; `options` are those that `run` would get.
    """
    check = [*(command or module_command()), "gateway", "check", "--json", "--home", str(home)]
    process = await asyncio.create_subprocess_exec(
        *check,
        "--schema",
        str(schema),
        *options,
        env=successor_environ(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(timeout):
            output, errors = await process.communicate()
    except TimeoutError:
        raise RestartRefused(
            "the check of the successor did not finish within {timeout:g} s. The "
            "running gateway continues. Run `holdfast gateway check` to check "
            "again.",
            timeout=timeout,
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise _would_not_start(_failure_reason(output, errors))


def _failure_reason(output: bytes, errors: bytes) -> str | HoldfastError:
    """The reported error; without a report, the end of its stderr."""
    try:
        reason = str(json.loads(output)["error"])
    except (ValueError, KeyError, TypeError):
        reason = errors.decode("utf-8", "replace").strip()[-_MAX_ERROR_CHARS:]
    return reason or HoldfastError("it ended without an error message")


def _would_not_start(reason: str | HoldfastError) -> RestartRefused:
    return RestartRefused(
        "the successor would not start: {reason}\nThe running gateway continues.", reason=reason
    )


def start_successor(
    home: Path,
    *,
    environ: Mapping[str, str],
    sockets: Sequence[socket.socket] = (),
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    first_wait: float = FIRST_WAIT,
    max_wait: float = MAX_WAIT,
    after_pid: int | None = None,
    channel: socket.socket | None = None,
) -> int:
    """Start a respawner in a session of its own, which starts a successor. Returns its pid.

    To be called when the lock has been released, or will be when this process ends: the respawner
    waits for that end (`after_pid`: for the end of another process; 0: of none). With a `channel`
    it may be called at any time: the successor is on standby then, and waits for the go signal and
    the lock itself. The sockets may be closed as soon as this returns: the respawner has them, and
    passes them on. `options` are for `run`, besides the home. Raises `OSError` if the respawner
    cannot be started.
    """
    paths = Paths(home)
    order = RespawnOrder(
        run_dir=str(private_dir(paths.run)),
        log_dir=str(private_dir(paths.logs)),
        argv=(*(command or module_command()), "run", "--home", str(home), "--unattended", *options),
        sockets=tuple(sock.fileno() for sock in sockets),
        first_wait=first_wait,
        max_wait=max_wait,
        after_pid=os.getpid() if after_pid is None else after_pid,
        channel=0 if channel is None else channel.fileno(),
    )
    respawner = subprocess.Popen(
        [sys.executable, "-m", "holdfast.service.respawner", *order.to_arguments()],
        env=successor_environ(environ),
        pass_fds=order.sockets if channel is None else (*order.sockets, order.channel),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # This process ends first and never waits for it: no warning about an unreaped child.
    respawner.returncode = os.EX_OK
    return respawner.pid


def restart_notice(home: Path) -> str:
    """Printed in the terminal that the gateway leaves on a restart."""
    return (
        f"Restarting: the gateway of {home} continues in the background, no longer in this "
        "terminal.\nRead its log with `holdfast logs -f`; stop it with `holdfast gateway stop`."
    )


class StandbySuccessor:
    """Owns the running gateway's end of the channel."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel

    async def would_start(self, *, schema: int, timeout: float) -> bool:  # noqa: ASYNC109 - False then
        """True: it would start, and knows the store's tables up to this version. False: it did not
        report, or its schema is too old. Raises `RestartRefused` with the reported error."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                received = await loop.sock_recv(self._channel, _MAX_REPORT_BYTES)
        except (TimeoutError, OSError):
            return False
        if not received:
            return False
        report = json.loads(received)
        if error := report["error"]:
            raise _would_not_start(error)
        return bool(report["schema"] >= schema)

    def release(self) -> bool:
        """Let it start as soon as it gets the lock. False: it does not run any more."""
        try:
            self._channel.sendall(_GO)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """Close the channel: the successor exits, unless it was released before."""
        self._channel.close()


class StandbyChannel:
    """Owns the standby successor's end of the channel."""

    def __init__(self, fd: int) -> None:
        self._channel = socket.socket(fileno=fd)
        self._channel.set_inheritable(False)

    def report(self, *, schema: int = 0, error: str = "") -> None:
        """Report that it would start, with the schema version it knows, or why not. A gateway that
        has exited meanwhile needs no report: there will be no go signal."""
        try:
            self._channel.sendall(json.dumps({"schema": schema, "error": error}).encode())
        except OSError:
            return

    def wait_for_release(self) -> bool:
        """Blocks until the go signal, or until the channel closes without one (False)."""
        try:
            return self._channel.recv(len(_GO)) == _GO
        except OSError:
            return False
        finally:
            self._channel.close()
