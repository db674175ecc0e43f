"""A turn that runs until a test releases it, however slow the machine is."""

import json
import time
from pathlib import Path

from tests.support.gateway_process import SpawnedGateway


class HeldTurn:
    """Holds a turn at a command until `release`. Each test gives it a name of its own."""

    def __init__(self, gateway: SpawnedGateway, name: str) -> None:
        self._workspaces = gateway.paths.workspaces
        self._name = name

    def prompt(self, *, first: str = "", last: str, answer: str) -> str:
        """The message: a command that runs `first`, waits, and runs `last`; then the reply."""
        wait = f": > {self._name}.waits; until [ -e {self._name} ]; do sleep 0.05; done"
        command = json.dumps({"command": "; ".join(filter(None, [first, wait, last]))})
        return f"[tool terminal {command}] [then] [text {answer}]"

    def wait_until_held(self) -> Path:
        """Waits until the command waits, and returns its workspace.

        A step is shown as running before its command is. A test that kills the gateway or
        releases the command too early would lose it.
        """
        ends = time.monotonic() + 40
        while not (found := list(self._workspaces.glob(f"*/{self._name}.waits"))):
            assert time.monotonic() < ends, "the command did not come to its wait"
            time.sleep(0.02)
        return found[0].parent

    def release(self) -> None:
        (self.wait_until_held() / self._name).touch()
