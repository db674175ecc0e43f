"""The runner's start: listen, give up every right, say that it is ready, serve."""

from __future__ import annotations

import json
import os
import socket
import sys

from .confine import confine
from .event_loop import EventLoop
from .namespaces import refuse_user_namespaces
from .server import RunnerServer


def main() -> None:
    """`argv[1]` is a descriptor to read the configuration from; it names two more."""
    with open(int(sys.argv[1]), "rb") as file:
        config = json.load(file)
    listener = socket.socket(fileno=int(config["listen_fd"]))
    listener.set_inheritable(False)
    os.set_inheritable(int(config["ready_fd"]), False)
    confine(config["uid"])
    if config["sandboxed"] and not refuse_user_namespaces():
        print("this kernel filters no calls: user namespaces stay open", file=sys.stderr)
    # Listening here and not in the gateway makes the kernel name *this* process as the
    # peer of whoever connects: that is how a gateway learns and proves our pid.
    listener.listen(8)
    server = RunnerServer(config, listener=listener, loop=EventLoop())
    try:
        os.write(int(config["ready_fd"]), b"r")
    except BrokenPipeError:
        return  # the gateway that started us is dead and has told nobody about us
    os.close(int(config["ready_fd"]))
    server.serve()
