"""Requests: what is asked of a store's thread, and how the event loop learns what came of it."""

import asyncio
from collections.abc import Callable, Iterable
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
