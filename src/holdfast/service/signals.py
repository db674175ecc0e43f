"""Signals: how the process is asked to stop."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager

_ASKING = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signal(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stop = asyncio.Event()

    def asked() -> None:
        stop.set()
        for each in _ASKING:
            loop.remove_signal_handler(each)

    for each in _ASKING:
        loop.add_signal_handler(each, asked)
    try:
        yield stop
    finally:
        for each in _ASKING:
            loop.remove_signal_handler(each)
