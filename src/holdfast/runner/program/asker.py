"""Who asked: one request of one client, to be answered or refused once."""

from __future__ import annotations

from typing import Any

from .wire import ClientConnection, Frame


class RunnerRefusal(Exception):
    """What was asked cannot be done; the text is for whoever asked."""


class RunnerRequest:
    def __init__(self, connection: ClientConnection, frame: Frame) -> None:
        self._connection, self._id = connection, frame["id"]
        self.wants_stream = bool(frame.get("stream"))

    @property
    def is_connected(self) -> bool:
        return self._connection.open

    def answer(self, result: Any) -> None:
        self._connection.send({"id": self._id, "result": result})

    def refuse(self, text: str) -> None:
        self._connection.send({"id": self._id, "refused": text})

    def stream(self, text: str) -> None:
        self._connection.stream({"id": self._id, "output": text})
