"""A turn that runs until a test lets it go on: however slow the machine, it is still there."""

import json

from tests.platforms.served import Served


class Held:
    """What is said to hold a turn at a command, and what lets it go. Each test names its own."""

    def __init__(self, gateway: Served, name: str) -> None:
        self._workspaces = gateway.paths.workspaces
        self._name = name

    def asks(self, *, first: str = "", last: str, answer: str) -> str:
        """To be said: a command that does the one, waits, and does the other; then the answer."""
        steps = [first, f"until [ -e {self._name} ]; do sleep 0.05; done", last]
        command = json.dumps({"command": "; ".join(filter(None, steps))})
        return f"[tool terminal {command}] [then] [text {answer}]"

    def let_go(self) -> None:
        for workspace in self._workspaces.iterdir():
            (workspace / self._name).touch()
