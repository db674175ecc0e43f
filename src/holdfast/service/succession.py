"""Succession without a supervisor: a detached starter sees to it that a successor comes up."""

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.service.backoff import FIRST, MOST
from holdfast.service.successor import inherited, program


class StarterOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What the starter is told, as its one argument."""

    home: str
    argv: tuple[str, ...]
    sockets: tuple[int, ...] = ()  # descriptors that it inherits, of listening sockets
    first_wait: float = FIRST
    longest_wait: float = MOST


def start_successor(
    home: Path,
    *,
    environ: Mapping[str, str],
    sockets: Sequence[socket.socket] = (),
    options: Sequence[str] = (),
    command: Sequence[str] = (),
    first_wait: float = FIRST,
    longest_wait: float = MOST,
) -> int:
    """Start the starter, in a session of its own, and return its pid.

    To be called when the lock has been released and nothing of this process writes any more. The
    sockets may be closed as soon as this returns: the starter has them, and gives them to the
    successor. `options` are for `run`, beside the home. Raises `OSError` where there is no
    starter; then there is no successor either.
    """
    argv = (*(command or program()), "run", "--home", str(home), "--unattended", *options)
    order = StarterOrder(
        home=str(home),
        argv=argv,
        sockets=tuple(sock.fileno() for sock in sockets),
        first_wait=first_wait,
        longest_wait=longest_wait,
    )
    starter = subprocess.Popen(
        [sys.executable, "-m", "holdfast.service.starter", msgspec.json.encode(order).decode()],
        env=inherited(environ),
        pass_fds=order.sockets,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    pid = starter.pid
    # Nobody waits for it here: this process ends before it does.
    starter.returncode = os.EX_OK
    return pid


def farewell(home: Path) -> str:
    """What a person in whose terminal the gateway ran is told when it leaves that terminal."""
    return (
        f"Restarting: the gateway of {home} goes on in the background, and no longer in this "
        "terminal.\nIt is read with `holdfast logs -f`, and ended with `holdfast gateway stop`."
    )
