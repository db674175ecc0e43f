"""The pulse: one timer that keeps all open streams from looking dead."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from holdfast.gateway.live.feeds import Attending, Changes, Feed

QUIET = 15.0  # seconds after which a proxy might think that nobody is there

Reader = Feed | Changes | Attending  # of an open stream


class Pulse:
    """Owns the timer, which runs while a stream is open; a stream costs it a place in a set."""

    def __init__(self, *, every: float = QUIET) -> None:
        self._every = every
        self._readers: set[Reader] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def kept(self, reader: Reader) -> Iterator[None]:
        self._readers.add(reader)
        if self._timer is None:
            self._arm()
        try:
            yield
        finally:
            self._readers.discard(reader)
            if not self._readers and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._every, self._beat)

    def _beat(self) -> None:
        for reader in self._readers:
            reader.breathe = True
            reader.wake.set()
        self._arm()
