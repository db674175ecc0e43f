"""The mailbox of a lane: what no turn has taken yet, and which of it is one turn."""

import asyncio
from collections import deque

from holdfast.core.messages.admission import merge_window, should_merge
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ports.capabilities import Capabilities
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.replies import reply_address


class Mailbox(deque[InboxRow]):
    """Messages in the order in which they will be answered."""

    def __init__(self, platforms: PlatformRegistry) -> None:
        super().__init__()
        self._platforms = platforms
        self._arrived = asyncio.Event()

    def append(self, row: InboxRow) -> None:
        super().append(row)
        self._arrived.set()

    def take_next(self) -> list[InboxRow]:
        """The message in front, with those behind it that belong to it."""
        return [self.popleft() for _ in range(self._length_of_first())]

    def take_all(self) -> list[InboxRow]:
        """All that waits, which waits here no more."""
        rows = list(self)
        self.clear()
        return rows

    async def wait_until_complete(self) -> None:
        """Returns once the message in front is whole. An ordinary one is at once; behind a part
        of an album or of a split paste the rest is waited for, anew with each part that comes."""
        while wait := self._settle_time_left():
            self._arrived.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _settle_time_left(self) -> float:
        """Seconds in which more of the message in front may come; 0: something else came since."""
        if not self or self._length_of_first() < len(self):
            return 0.0
        last = self[-1]
        return merge_window(last.inbound, capabilities=self._capabilities(last))

    def _length_of_first(self) -> int:
        parts = 1
        while parts < len(self) and self._belong_together(self[parts - 1], self[parts]):
            parts += 1
        return parts

    def _belong_together(self, one: InboxRow, other: InboxRow) -> bool:
        return should_merge(one, other, capabilities=self._capabilities(one))

    def _capabilities(self, row: InboxRow) -> Capabilities:
        return self._platforms.capabilities(reply_address(row))
