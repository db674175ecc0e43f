"""A thread of the store, and the requests that the event loop sends to it."""

import asyncio
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import apsw
import msgspec

Work = Callable[[apsw.Cursor], Any]


class StoreRequest(msgspec.Struct):
    """A piece of work and whoever waits for it; `error` or `result` is set by the thread."""

    future: asyncio.Future[Any]
    work: Work
    result: Any = None
    error: Exception | None = None


class NonTransactionalRequest(StoreRequest):
    """Work that cannot be done inside a transaction; done between two of them."""


def resolve_requests(loop: asyncio.AbstractEventLoop, requests: Iterable[StoreRequest]) -> None:
    """Wakes all who wait for these requests, with one wake-up of the loop. From any thread."""
    try:
        loop.call_soon_threadsafe(_set_results, requests)
    except RuntimeError:
        # The loop was closed without closing the store; nobody is left to tell.
        return


def _set_results(requests: Iterable[StoreRequest]) -> None:
    for request in requests:
        if request.future.done():
            continue  # its awaiter was cancelled, which does not concern the work
        if request.error is None:
            request.future.set_result(request.result)
        else:
            request.future.set_exception(request.error)


class StoreThread:
    """Owns a thread. Its body calls what it is given once it is ready to work; `ended` once it has
    returned, and from any thread."""

    def __init__(self, name: str, body: Callable[[Callable[[], None]], None]) -> None:
        self._body = body
        self._ready: Future[None] = Future()
        self._finished: Future[None] = Future()
        self.ended = False  # beside the future, which would be locked for each write
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def start(self) -> None:
        """Returns when the body is ready; raises what kept it from that."""
        self._thread.start()
        await asyncio.shield(asyncio.wrap_future(self._ready))

    async def join(self) -> None:
        """Returns when the body has ended; raises what ended it, if that was no plain return."""
        if self._thread.ident is None:
            return
        await asyncio.shield(asyncio.wrap_future(self._finished))
        self._thread.join()

    def _run(self) -> None:
        try:
            self._body(lambda: self._ready.set_result(None))
        except BaseException as error:  # noqa: BLE001 - a thread has no caller but these two
            self.ended = True
            if not self._ready.done():
                self._ready.set_exception(error)
                self._finished.set_result(None)
            else:
                self._finished.set_exception(error)
        else:
            self.ended = True
            self._finished.set_result(None)
