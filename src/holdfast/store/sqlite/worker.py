"""A thread of the store, and the requests that the event loop sends to it."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import apsw
import msgspec

from holdfast.core.ports.command import Command
from holdfast.store.events import CommandEvents

Work = Callable[[apsw.Cursor], Any]


class StoreRequest(msgspec.Struct):
    """Work for a store thread, and the future of its caller. The thread sets `error` or
    `result`."""

    future: asyncio.Future[Any]
    work: Work
    command: Command[Any] | None = None  # of a write
    events: CommandEvents | None = None  # told about the command once it has ended
    result: Any = None
    audited: bool = False  # it has added rows to the audit
    error: Exception | None = None

    def settle(self) -> None:
        """Resolve the future and publish the command. On the event loop: subscribers run before the
        code that awaits the future resumes."""
        future, events = self.future, self.events
        if self.error is None:
            if not future.done():  # else its caller was cancelled, which does not affect the work
                future.set_result(self.result)
            if events is not None and self.command is not None:
                events.publish_committed(self.command, self.result, self.audited)
            return
        if not future.done():
            future.set_exception(self.error)
        if events is not None and self.command is not None:
            future.cancelled() or future.exception()  # published: a caller need not wait for it
            events.publish_failed(self.command, self.error)


class DeferredRequest(StoreRequest):
    """A write whose loss does no harm: it waits for the next transaction and joins it."""


class NonTransactionalRequest(StoreRequest):
    """Work that cannot run inside a transaction; it runs between two of them."""


def resolve_requests(loop: asyncio.AbstractEventLoop, requests: Iterable[StoreRequest]) -> None:
    """Resolve the futures of these requests, with one wake-up of the loop. From any thread."""
    try:
        loop.call_soon_threadsafe(_set_results, requests)
    except RuntimeError:
        # The loop was closed without closing the store; no caller is left.
        return


def _set_results(requests: Iterable[StoreRequest]) -> None:
    for request in requests:
        request.settle()


class StoreThread:
    """Owns a thread. The body gets a function to call when it is ready to work. `ended` is set when
    the body has returned, and may be read from any thread."""

    def __init__(self, name: str, body: Callable[[Callable[[], None]], None]) -> None:
        self._body = body
        self._ready: Future[None] = Future()
        self._finished: Future[None] = Future()
        self.ended = False  # besides the future, whose lock would cost every write
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def start(self) -> None:
        """Returns when the body is ready; raises its error if it fails before."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._ready))

    async def join(self) -> None:
        """Returns when the body has ended; raises its error, if it failed."""
        if self._thread.ident is None:
            return
        await asyncio.shield(asyncio.wrap_future(self._finished))
        self._thread.join()

    def _run(self) -> None:
        try:
            self._body(lambda: self._ready.set_result(None))
        except BaseException as error:  # noqa: BLE001 - `start` or `join` raises it
            self.ended = True
            if not self._ready.done():
                self._ready.set_exception(error)
                self._finished.set_result(None)
            else:
                self._finished.set_exception(error)
        else:
            self.ended = True
            self._finished.set_result(None)
