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

from holdfast.core.errors import RestartRefused
from holdfast.service.child_process import FIRST_WAIT, MAX_WAIT
from holdfast.service.respawner import RespawnOrder
from holdfast.system.paths import Paths, private_dir
from holdfast.system.sockets import LISTEN_VARIABLES

CHECK_TIMEOUT = 30.0
# What belongs to this process alone: its descriptors and its place with its supervisor.
_OWN_VARIABLES = frozenset({*LISTEN_VARIABLES, "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"})
_MAX_ERROR_CHARS = 2000


def module_command() -> list[str]:
    """How this program is called again, by the interpreter that runs it now."""
    return [sys.executable, "-m", "holdfast.cli"]


def successor_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that a successor gets: ours, without what was meant for us alone."""
    return {name: value for name, value in environ.items() if name not in _OWN_VARIABLES}


async def check_successor(
    home: Path,
    *,
    environ: Mapping[str, str],
    schema: int = 0,
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    timeout: float = CHECK_TIMEOUT,
) -> None:
    """Have the code and the configuration that are on disk now say whether they would start.

    Raises `RestartRefused` with the reason, the place and the remedy. It is asked in a process
    of its own, which holds no lock and opens no store: what is running is not touched. `schema`
    is the version of the store's tables, which the successor must know; `options` are those that
    `run` would get.
    """
    asked = [*(command or module_command()), "gateway", "check", "--json", "--home", str(home)]
    process = await asyncio.create_subprocess_exec(
        *asked,
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
            said, errors = await process.communicate()
    except TimeoutError:
        raise RestartRefused(
            f"the successor could not say within {timeout:g} s whether it would start. The "
            "running gateway goes on. `holdfast gateway check` asks it again."
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise RestartRefused(_failure_reason(said, errors))


def _failure_reason(output: bytes, errors: bytes) -> str:
    """What it says itself; where it cannot even say that, what Python says."""
    try:
        reason = str(json.loads(output)["error"])
    except (ValueError, KeyError, TypeError):
        words = errors.decode("utf-8", "replace").strip()[-_MAX_ERROR_CHARS:]
        reason = words or "it ended without a word"
    return f"the successor would not start: {reason}\nThe running gateway goes on."


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
    """Start the starter, in a session of its own, and return its pid.

    To be called when the lock has been released, or will be when this process ends: that end is
    waited for (`follows`: that of another, or of none, which is 0). Or at any time with a `line`:
    the successor is an understudy then, and waits for its cue and for the lock by itself.
    The sockets may be closed as soon as this returns: the starter has them, and gives them to the
    successor. `options` are for `run`, beside the home. Raises `OSError` where there is no
    starter; then there is no successor either.
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
    starter = subprocess.Popen(
        [sys.executable, "-m", "holdfast.service.respawner", *order.to_arguments()],
        env=successor_environ(environ),
        pass_fds=order.sockets if channel is None else (*order.sockets, order.channel),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid = starter.pid
    # Nobody waits for it here: this process ends before it does.
    starter.returncode = os.EX_OK
    return pid


def restart_notice(home: Path) -> str:
    """What a person in whose terminal the gateway ran is told when it leaves that terminal."""
    return (
        f"Restarting: the gateway of {home} goes on in the background, and no longer in this "
        "terminal.\nIt is read with `holdfast logs -f`, and ended with `holdfast gateway stop`."
    )


# Its line to the gateway that runs is a socket that it inherits. It says there whether it would
# start; the cue lets it wait for the lock of the home; when the line ends without one, it goes.
_GO = b"go\n"
_MAX_REPORT_BYTES = 64 * 1024


class StandbySuccessor:
    """Owns this gateway's end of the line."""

    def __init__(self, channel: socket.socket) -> None:
        channel.setblocking(False)
        self._channel = channel

    async def would_start(self, *, schema: int, timeout: float) -> bool:
        """True: it would start, and knows the store's tables up to this version. False: somebody
        else is to find out why not. Raises `RestartRefused` with what it said."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout):
                said = await loop.sock_recv(self._channel, _MAX_REPORT_BYTES)
        except (TimeoutError, OSError):
            return False
        if not said:
            return False
        word = json.loads(said)
        if error := word["error"]:
            raise RestartRefused(
                f"the successor would not start: {error}\nThe running gateway goes on."
            )
        return bool(word["schema"] >= schema)

    def release(self) -> bool:
        """From now on it starts as soon as it gets the lock. False: it is not there any more."""
        try:
            self._channel.sendall(_GO)
        except OSError:
            return False
        return True

    def dismiss(self) -> None:
        """Without a cue it goes; after one, this changes nothing."""
        self._channel.close()


class StandbyChannel:
    """Owns the understudy's end."""

    def __init__(self, fd: int) -> None:
        self._channel = socket.socket(fileno=fd)
        self._channel.set_inheritable(False)

    def report(self, *, schema: int = 0, error: str = "") -> None:
        """Say that it would start, with the tables it knows, or why not. A gateway that has
        gone meanwhile needs no answer: there will be no cue."""
        try:
            self._channel.sendall(json.dumps({"schema": schema, "error": error}).encode())
        except OSError:
            return

    def wait_for_release(self) -> bool:
        """Blocks until there is a cue, or nobody left to give one."""
        try:
            return self._channel.recv(len(_GO)) == _GO
        except OSError:
            return False
        finally:
            self._channel.close()
