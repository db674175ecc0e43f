"""Held: what a door has heard, that is durable nowhere yet and that nobody would bring again."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

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
