"""The runner's entry point and server: confine itself, listen, dispatch requests, end when idle."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from . import process_tree
from .command_process import CommandProcess
from .commands import Commands, OutputTails
from .confinement import confine, deny_system_calls
from .egress import EgressForwarder
from .event_loop import EventLoop
from .files import FILE_OPERATIONS, FileWorker
from .processes import Processes
from .protocol import ClientConnection, Frame, RunnerRefusal, RunnerRequest
from .quota import DiskQuota, DiskUse
from .shell import ShellTerminals
from .spool import Spool

MIN_IDLE_TIMEOUT = 0.1  # seconds; with zero it would only check itself in a loop
UNCLAIMED_TIMEOUT = 20.0  # seconds for the first connection; after that its gateway is dead

Operation = Callable[[RunnerRequest, Mapping[str, Any]], None]


class RunnerServer:
    """Owns the connections and the running commands."""

    def __init__(
        self, config: Mapping[str, Any], *, listener: socket.socket, loop: EventLoop
    ) -> None:
        self._listener, self._loop = listener, loop
        self._idle_timeout = max(MIN_IDLE_TIMEOUT, float(config["idle_timeout"]))
        self._connections: set[ClientConnection] = set()
        self._processes: set[CommandProcess] = set()
        # Its gateway may be slow to connect: it is not idle before its first use.
        self._last_used = time.monotonic() + max(0.0, UNCLAIMED_TIMEOUT - self._idle_timeout)
        self._quota = DiskQuota(
            DiskUse(int(config["workspace_bytes"]), int(config["workspace_files"])),
            folders=(config["workspace"], config["spool"]),
            loop=loop,
            processes=lambda: list(self._processes),
        )
        self._operations = self._make_operations(config)
        egress = config["egress"]
        if egress["socket"]:
            EgressForwarder(loop, port=int(egress["port"]), target=egress["socket"])

    def serve(self) -> None:
        self._listener.setblocking(False)
        self._loop.watch_reading(self._listener.fileno(), self._accept)
        self._loop.after(UNCLAIMED_TIMEOUT, self._end_if_unclaimed)
        self._loop.after(self._idle_timeout, self._end_if_idle)
        self._loop.run()

    def _make_operations(self, config: Mapping[str, Any]) -> dict[str, Operation]:
        spool = Spool(config["spool"])
        home, limits = str(config["workspace"]), config["limits"]
        terminals = ShellTerminals(
            spool,
            home=home,
            environment=dict(config["environment"]),
            proxy_variables=dict(config["egress"]["variables"]),
        )
        commands = Commands(
            loop=self._loop,
            spool=spool,
            terminals=terminals,
            tails=OutputTails(self._loop),
            limits=limits,
            output_limit=int(config["output_bytes"]),
            on_process=self._track_process,
        )
        processes = Processes(
            loop=self._loop,
            spool=spool,
            terminals=terminals,
            limits=limits,
            on_process=self._track_process,
        )
        worker = FileWorker(
            loop=self._loop,
            spool=spool,
            terminals=terminals,
            quota=self._quota,
            home=home,
            protected=config["protected"],
            limits=limits,
        )
        operations: dict[str, Operation] = dict.fromkeys(FILE_OPERATIONS, worker.run)
        operations.update(run=commands.run, attach=commands.attach, cancel=commands.cancel)
        operations.update(start=processes.start, started=processes.started, list=processes.list)
        operations.update(poll=processes.poll, log=processes.log, wait=processes.wait)
        operations.update(feed=processes.feed, kill=processes.kill)
        return operations

    def _track_process(self, process: CommandProcess, running: bool) -> None:
        if running:
            self._processes.add(process)
            self._quota.watch()
        else:
            self._processes.discard(process)
        self._last_used = time.monotonic()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        connection = ClientConnection(
            sock, loop=self._loop, on_frame=self._handle, on_close=self._connections.discard
        )
        self._connections.add(connection)

    def _handle(self, connection: ClientConnection, frame: Frame) -> None:
        self._last_used = time.monotonic()
        request = RunnerRequest(connection, frame)
        operation = self._operations.get(str(frame["op"]))
        if operation is None:
            return request.refuse(
                f"the runner does not know {frame['op']!r}: it is older than the gateway"
            )
        try:
            operation(request, frame)
        except RunnerRefusal as refusal:
            request.refuse(str(refusal))
        except OSError as error:
            # A full disk or process table: only this request fails.
            request.refuse(f"the runner failed: {error}")
        except Exception as error:  # noqa: BLE001 - one request must not end the runner
            traceback.print_exc()
            request.refuse(f"the runner failed: {error!r}")

    def _end_if_unclaimed(self) -> None:
        if not self._connections and not self._processes:
            self.end()

    def _end_if_idle(self) -> None:
        left = self._last_used + self._idle_timeout - time.monotonic()
        if left <= 0 and not process_tree.living_descendants(os.getpid()):
            return self.end()
        self._loop.after(left if left > 0 else self._idle_timeout, self._end_if_idle)

    def end(self) -> None:
        process_tree.kill_descendants(os.getpid())
        self._loop.stop()


def main() -> None:
    """`argv[1]` is the descriptor of the configuration, which names two more descriptors."""
    with open(int(sys.argv[1]), "rb") as file:
        config = json.load(file)
    listener = socket.socket(fileno=int(config["listen_fd"]))
    listener.set_inheritable(False)
    os.set_inheritable(int(config["ready_fd"]), False)
    confine(config["uid"])
    if config["sandboxed"] and not deny_system_calls():
        print("this kernel has no seccomp filters: all system calls stay open", file=sys.stderr)
    # Listening here and not in the gateway makes the kernel report *this* process as the peer of
    # each connection: that is how a gateway learns and verifies our pid.
    listener.listen(8)
    server = RunnerServer(config, listener=listener, loop=EventLoop())
    try:
        os.write(int(config["ready_fd"]), b"r")
    except BrokenPipeError:
        return  # the gateway that started us is dead and has not recorded us
    os.close(int(config["ready_fd"]))
    server.serve()
