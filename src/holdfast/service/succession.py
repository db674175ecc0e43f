"""Succession without a supervisor: a detached starter sees to it that a successor comes up."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.service.backoff import FIRST_WAIT, MAX_WAIT
from holdfast.service.respawner import RespawnOrder
from holdfast.service.successor import module_command, successor_environ
from holdfast.system.paths import Paths, private_dir


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
