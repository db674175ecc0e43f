"""Held: what a door has heard, that is durable nowhere yet and that nobody would bring again."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")
Taker = Callable[[T], Awaitable[None]]


class Held(Generic[T]):
    """Owns it, in the order in which it was heard. It belongs to the door and not to one of its
    lines: a store that takes nothing may outlast any of them."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def full(self) -> bool:
        return len(self._waiting) >= self._most

    def add(self, heard: T) -> None:
        self._waiting.append(heard)

    async def hand_over(self, take: Taker[T], then: Taker[T] | None = None) -> None:
        """Until nothing is left. What `take` fails with is raised, and that one stays in front:
        nothing overtakes it. Whatever becomes of `then`, it is not held any more."""
        while self._waiting:
            await take(self._waiting[0])
            taken = self._waiting.popleft()
            if then is not None:
                await then(taken)

    def forget(self) -> None:
        """Whoever sent it keeps it, and brings it again."""
        self._waiting.clear()

    def tell(self, whose: str) -> None:
        """To be called when a line ends: what is not kept until the process does is lost then."""
        if self._waiting:
            log.warning(
                "%d messages to %s were heard and could not be kept: they are tried again on its "
                "next connection.",
                len(self._waiting),
                whose,
                extra={"action": "messages_held"},
            )
