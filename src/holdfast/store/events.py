"""Publishes what was committed and what was not: the `StoreEvents` of every implementation."""

import logging
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.core.ports.command import (
    Command,
    Committed,
    FailureSubscriber,
    Subscriber,
    WriteFailed,
)

log = logging.getLogger(__name__)

S = TypeVar("S", Subscriber, FailureSubscriber)


class _Subscriptions(Generic[S]):
    """Owns the subscribers of each type of command, in the order of subscription."""

    def __init__(self) -> None:
        self._all: list[tuple[S, tuple[type[Command[Any]], ...]]] = []
        self._by_type: dict[type[Command[Any]], tuple[S, ...]] = {}

    def add(self, subscriber: S, commands: tuple[type[Command[Any]], ...]) -> None:
        self._all.append((subscriber, commands))
        self._by_type.clear()

    def for_type(self, kind: type[Command[Any]]) -> tuple[S, ...]:
        found = self._by_type.get(kind)
        if found is None:
            found = tuple(one for one, commands in self._all if not commands or kind in commands)
            self._by_type[kind] = found
        return found


class CommandEvents:
    """Owns the subscribers. The store calls `publish_committed` and `publish_failed` on the event
    loop, in commit order."""

    def __init__(self) -> None:
        self._committed = _Subscriptions[Subscriber]()
        self._failed = _Subscriptions[FailureSubscriber]()

    def on_committed(self, subscriber: Subscriber, *commands: type[Command[Any]]) -> None:
        self._committed.add(subscriber, commands)

    def on_failed(self, subscriber: FailureSubscriber, *commands: type[Command[Any]]) -> None:
        self._failed.add(subscriber, commands)

    def publish_committed(self, command: Command[Any], result: Any, audited: bool) -> None:
        if subscribers := self._committed.for_type(type(command)):
            event = Committed(command, result, audited)
            for subscriber in subscribers:
                try:
                    subscriber(event)
                except Exception:  # noqa: BLE001 - it must not stop the others, nor the store
                    _log_failure(subscriber, command)

    def publish_failed(self, command: Command[Any], error: Exception) -> None:
        if subscribers := self._failed.for_type(type(command)):
            event = WriteFailed(command, error)
            for subscriber in subscribers:
                try:
                    subscriber(event)
                except Exception:
                    log.exception(
                        "Subscriber %s failed after the write of %s was refused.",
                        _name(subscriber),
                        type(command).__name__,
                        extra={
                            "action": "commit_subscriber_failed",
                            "session": command.scope.session_id,
                        },
                    )


def _name(subscriber: Any) -> str:
    function = subscriber.func if isinstance(subscriber, partial) else subscriber
    name: str = getattr(function, "__qualname__", repr(function))
    return name


def _log_failure(subscriber: Any, command: Command[Any]) -> None:
    session_id = command.scope.session_id
    log.exception(
        "Subscriber %s failed after the commit of %s; what was committed is stored, and the next "
        "start continues with it.",
        _name(subscriber),
        type(command).__name__,
        extra={"action": "commit_subscriber_failed", "session": session_id},
    )
