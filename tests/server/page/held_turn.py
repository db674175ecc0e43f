"""A turn that runs until a test lets it go on: however slow the machine, it is still there."""

import json
import time
from pathlib import Path

from tests.support.gateway_process import GatewayProcess


class Held:
    """What is said to hold a turn at a command, and what lets it go. Each test names its own."""

    def __init__(self, gateway: GatewayProcess, name: str) -> None:
        self._workspaces = gateway.paths.workspaces
        self._name = name

    def asks(self, *, first: str = "", last: str, answer: str) -> str:
        """To be said: a command that does the one, waits, and does the other; then the answer."""
        wait = f": > {self._name}.waits; until [ -e {self._name} ]; do sleep 0.05; done"
        command = json.dumps({"command": "; ".join(filter(None, [first, wait, last]))})
        return f"[tool terminal {command}] [then] [text {answer}]"

    def until_it_waits(self) -> Path:
        """The workspace of the command, once that is at its wait. A step is shown as running
        before its command is: who kills the gateway then, or lets go what is not there, loses it.
        """
        ends = time.monotonic() + 40
        while not (found := list(self._workspaces.glob(f"*/{self._name}.waits"))):
            assert time.monotonic() < ends, "the command did not come to its wait"
            time.sleep(0.02)
        return found[0].parent

    def let_go(self) -> None:
        (self.until_it_waits() / self._name).touch()
