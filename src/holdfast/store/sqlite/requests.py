"""Requests: what is asked of a store's thread, and how the event loop learns what came of it."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import apsw
import msgspec

Work = Callable[[apsw.Cursor], Any]


class Request(msgspec.Struct):
    """A piece of work and whoever waits for it; `error` or `result` is set by the thread."""

    future: asyncio.Future[Any]
    work: Work
    result: Any = None
    error: Exception | None = None


class Aside(Request):
    """Work that cannot be done inside a transaction; done between two of them."""


def settle(loop: asyncio.AbstractEventLoop, requests: Iterable[Request]) -> None:
    """Wakes all who wait for these requests, with one wake-up of the loop. From any thread."""
    try:
        loop.call_soon_threadsafe(_resolve, requests)
    except RuntimeError:
        # The loop was closed without closing the store; nobody is left to tell.
        return


def _resolve(requests: Iterable[Request]) -> None:
    for request in requests:
        if request.future.done():
            continue  # its awaiter was cancelled, which does not concern the work
        if request.error is None:
            request.future.set_result(request.result)
        else:
            request.future.set_exception(request.error)
