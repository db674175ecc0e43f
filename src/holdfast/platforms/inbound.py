"""What the receiving side of platforms shares: the buffer of events that are not stored yet, the
delays between retries, and bounded downloads."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

import aiohttp

from holdfast.core.messages.source import AttachmentUnavailable

log = logging.getLogger(__name__)

T = TypeVar("T")
EventHandler = Callable[[T], Awaitable[None]]

_FIRST_DELAY, _LONGEST_DELAY = 0.2, 5.0
_CHUNK_BYTES = 64 * 1024


class EventBuffer(Generic[T]):
    """Owns the received events that are not durable yet and that the vendor would not send again,
    in order. It belongs to the platform and not to one connection: a store that cannot write may
    outlast any connection."""

    def __init__(self, max_events: int = 10_000) -> None:
        self._max_events = max_events
        self._events: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_full(self) -> bool:
        return len(self._events) >= self._max_events

    def add(self, event: T) -> None:
        self._events.append(event)

    async def drain(self, handle: EventHandler[T], after: EventHandler[T] | None = None) -> None:
        """Handles events until none is left. An error of `handle` is raised, and that event stays
        first: nothing overtakes it. Once handled it is removed, whatever `after` does."""
        while self._events:
            await handle(self._events[0])
            handled = self._events.popleft()
            if after is not None:
                await after(handled)

    def clear(self) -> None:
        """Drop all events, for vendors that send unacknowledged events again."""
        self._events.clear()

    def log_pending(self, account: str) -> None:
        """Log what is buffered when a connection ends: events that are still here when the process
        ends are lost."""
        if self._events:
            log.warning(
                "%d messages to %s were received but could not be stored; retrying on its "
                "next connection",
                len(self._events),
                account,
                extra={"action": "messages_buffered"},
            )


def backoff_delays(first: float = _FIRST_DELAY, longest: float = _LONGEST_DELAY) -> Iterator[float]:
    """Seconds that double up to `longest`, without end."""
    delay = first
    while True:
        yield delay
        delay = min(delay * 2, longest)


def _ignore() -> None: ...


async def read_body(
    response: aiohttp.ClientResponse, *, max_bytes: int, on_chunk: Callable[[], None] = _ignore
) -> bytes:
    """Reads all of it and calls `on_chunk` for each chunk. Raises `AttachmentUnavailable` as soon
    as it exceeds `max_bytes`: the size that the sender declares cannot be trusted."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        on_chunk()
        body += chunk
        if len(body) > max_bytes:
            raise AttachmentUnavailable("larger than {max_mb} MB", max_mb=max_bytes // 2**20)
    return bytes(body)
