"""A store whose writes a test can refuse, hold or leave unconfirmed."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.support.stores import future_of, open_store

from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command, Committed, Query, WriteFailed
from holdfast.store.events import CommandEvents

R = TypeVar("R")

Commit = Callable[[], asyncio.Future[Any]]
Intercepted = Exception | Coroutine[Any, Any, Any] | None


class ControlledStore:
    """A store that asks `intercept` about each write. Whatever it answers, a write that has ended
    resolves its future and is published as the real store does it.

    Everything else is the real store's. It publishes what `intercept` left alone; what it did not,
    this store publishes when the coroutine ends.
    """

    def __init__(self, path: Path) -> None:
        self._store = open_store(path)
        self._events = self.events = CommandEvents()
        self._held: list[Command[Any]] = []  # committed, or about to be, for a coroutine
        self._intercepted: set[asyncio.Task[None]] = set()
        self._store.events.on_committed(self._pass_committed)
        self._store.events.on_failed(self._pass_failed)

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        """None: the command is written as usual. An exception: it is refused with that. A
        coroutine: its end is the end of the write.

        `commit` queues the command when it is called; its future is resolved when the command is
        durable, and nothing is published before the coroutine ends.
        """
        return None

    def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> asyncio.Future[R]:
        found = self.intercept(command, partial(self._commit, command, audit))
        if found is None:
            return future_of(self._store.write(command, audit=audit, deferred=deferred))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        if isinstance(found, Exception):
            loop.call_soon(self._fail, future, command, found)
        else:
            settling = self._settle_with(future, command, found)
            task = loop.create_task(settling, name=type(command).__name__)
            self._intercepted.add(task)
            task.add_done_callback(self._intercepted.discard)
        return future

    async def read(self, query: Query[R]) -> R:
        return await self._store.read(query)

    async def __aenter__(self) -> "ControlledStore":
        await self._store.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._store.__aexit__(*exc)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _commit(self, command: Command[R], audit: AuditEntry | None) -> asyncio.Future[R]:
        self._held.append(command)
        return future_of(self._store.write(command, audit=audit))

    async def _settle_with(
        self, future: asyncio.Future[Any], command: Command[Any], write: Coroutine[Any, Any, Any]
    ) -> None:
        try:
            result = await write
        except Exception as error:  # noqa: BLE001 - as in the store: any error fails the command
            self._fail(future, command, error)
        except asyncio.CancelledError:  # with the test: nothing is known about the command
            future.cancel()
            raise
        else:
            if not future.done():  # else its caller was cancelled
                future.set_result(result)
            self._events.publish_committed(command, result, False)

    def _fail(self, future: asyncio.Future[Any], command: Command[Any], error: Exception) -> None:
        if not future.done():
            future.set_exception(error)
            future.exception()  # published: a caller need not wait for it
        self._events.publish_failed(command, error)

    def _pass_committed(self, event: Committed) -> None:
        if not self._take_held(event.command):
            self._events.publish_committed(event.command, event.result, event.audited)

    def _pass_failed(self, event: WriteFailed) -> None:
        if not self._take_held(event.command):
            self._events.publish_failed(event.command, event.error)

    def _take_held(self, command: Command[Any]) -> bool:
        """Whether it was committed for a coroutine, which is asked once."""
        for number, held in enumerate(self._held):
            if held is command:
                del self._held[number]
                return True
        return False


async def never() -> None:
    """The end of a write that is not confirmed in this process."""
    await asyncio.get_running_loop().create_future()
