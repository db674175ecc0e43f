"""A store whose writes a test can refuse, hold or leave unconfirmed."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command
from holdfast.store.sqlite.command_handlers import COMMAND_HANDLERS
from holdfast.store.sqlite.store import SqliteStore
from holdfast.store.sqlite.worker import StoreRequest
from holdfast.store.sqlite.writes.audit_log import run_audited

R = TypeVar("R")

Commit = Callable[[], asyncio.Future[Any]]
Intercepted = Exception | Coroutine[Any, Any, Any] | None


class ControlledStore(SqliteStore):
    """A store that asks `intercept` about each write. Whatever it answers, a write that has ended
    resolves its future and is published as the real store does it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._intercepted: set[asyncio.Task[None]] = set()

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
            return super().write(command, audit=audit, deferred=deferred)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        request = StoreRequest(future, _no_work, command, self.events)
        if isinstance(found, Exception):
            request.error = found
            loop.call_soon(request.settle)
        else:
            task = loop.create_task(_settle_with(request, found), name=type(command).__name__)
            self._intercepted.add(task)
            task.add_done_callback(self._intercepted.discard)
        return future

    def _commit(self, command: Command[R], audit: AuditEntry | None) -> asyncio.Future[R]:
        handler = COMMAND_HANDLERS[type(command)]
        if audit is not None:
            handler = partial(run_audited, handler=handler, entry=audit)
        return self._writer.submit(lambda cursor: handler(cursor, command))


async def never() -> None:
    """The end of a write that is not confirmed in this process."""
    await asyncio.get_running_loop().create_future()


async def _settle_with(request: StoreRequest, write: Coroutine[Any, Any, Any]) -> None:
    try:
        request.result = await write
    except Exception as error:  # noqa: BLE001 - as in the store: any error fails the command
        request.error = error
    except asyncio.CancelledError:  # with the test: nothing is known about the command
        request.future.cancel()
        raise
    request.settle()


def _no_work(cursor: Any) -> None:
    raise AssertionError("the coroutine has done it")
