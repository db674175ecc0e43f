"""What the receiving side of platforms shares: the buffer of events that are not stored yet, the delays between retries, and bounded downloads."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic, TypeVar

import aiohttp

from holdfast.core.messages.source import AttachmentUnavailable

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.held: Held: what a door has heard, that is durable nowhere yet and that nobody would bring again.
T = TypeVar("T")
EventHandler = Callable[[T], Awaitable[None]]


class EventBuffer(Generic[T]):
    """Owns it, in the order in which it was heard. It belongs to the door and not to one of its
    lines: a store that takes nothing may outlast any of them."""

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
        """Until nothing is left. What `take` fails with is raised, and that one stays in front:
        nothing overtakes it. Whatever becomes of `then`, it is not held any more."""
        while self._events:
            await handle(self._events[0])
            taken = self._events.popleft()
            if after is not None:
                await after(taken)

    def clear(self) -> None:
        """Whoever sent it keeps it, and brings it again."""
        self._events.clear()

    def log_pending(self, account: str) -> None:
        """To be called when a line ends: what is not kept until the process does is lost then."""
        if self._events:
            log.warning(
                "%d messages to %s were heard and could not be kept: they are tried again on its "
                "next connection.",
                len(self._events),
                account,
                extra={"action": "messages_buffered"},
            )


# MERGED holdfast.platforms.pauses: Pauses: how long a door waits before it hands over again what could not be kept.
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 5.0


def backoff_delays(first: float = _FIRST_DELAY, longest: float = _LONGEST_DELAY) -> Iterator[float]:
    """Seconds that double up to `longest`, without end."""
    pause = first
    while True:
        yield pause
        pause = min(pause * 2, longest)


# MERGED holdfast.platforms.fetched: Fetched: the bytes of a file that people have sent, and no more of them than are taken.
_CHUNK_BYTES = 64 * 1024


def _ignore() -> None: ...


async def read_body(
    response: aiohttp.ClientResponse, *, max_bytes: int, on_chunk: Callable[[], None] = _ignore
) -> bytes:
    """All of it. `alive` is told of each piece. Raises `AttachmentUnavailable` as soon as it is larger than
    `most`: what its sender says of its size is only their word."""
    held = bytearray()
    async for piece in response.content.iter_chunked(_CHUNK_BYTES):
        on_chunk()
        held += piece
        if len(held) > max_bytes:
            raise AttachmentUnavailable(f"it is larger than {max_bytes // 2**20} MB")
    return bytes(held)
