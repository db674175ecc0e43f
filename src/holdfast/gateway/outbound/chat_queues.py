"""The queues of chats: what is owed to each of them, in order, and the signs that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.outbound.pacing import Gate
from holdfast.gateway.outbound.parcel import Parcel
from holdfast.gateway.outbound.passing import Passing
from holdfast.gateway.outbound.sign import Sign

Key = tuple[str, str, str]  # platform, account, chat


class ChatQueue:
    """One chat's: order within it is kept, so one parcel is under way at a time. Signs are put
    while nothing is owed."""

    __slots__ = ("gate", "parcels", "signs", "since", "task")

    def __init__(self, clock: Clock) -> None:
        self.gate = Gate(clock)
        self.parcels: deque[Parcel | Passing] = deque()
        self.signs: deque[Sign] = deque()
        self.since = clock.now()  # when the parcel in front came to be there
        self.task: asyncio.Task[None] | None = None


class ChatQueues(dict[Key, ChatQueue]):
    """Of those chats to which something is owed, or a sign is to be put."""

    def of(self, address: Address) -> ChatQueue | None:
        return self.get(key_of(address))

    @property
    def owing(self) -> Iterator[tuple[Key, ChatQueue]]:
        """Those with parcels: nobody is owed a sign."""
        return ((key, chat) for key, chat in self.items() if chat.parcels)

    @property
    def owed(self) -> int:
        return sum(len(chat.parcels) for chat in self.values())

    @property
    def since(self) -> float | None:
        """When the delivery came to be in front that has been there longest; None: none is owed."""
        return min((chat.since for _, chat in self.owing), default=None)

    def stranded(self, has: Callable[[str, str], bool]) -> dict[str, int]:
        """How much waits for accounts that nobody answers for any more, by account."""
        waiting: dict[str, int] = {}
        for (name, account, _), chat in self.owing:
            if not has(name, account):
                key = f"{name}:{account}"
                waiting[key] = waiting.get(key, 0) + len(chat.parcels)
        return waiting

    def holds(self, delivery_id: DeliveryId) -> bool:
        parcels = (parcel for chat in self.values() for parcel in chat.parcels)
        return any(isinstance(each, Parcel) and each.id == delivery_id for each in parcels)


def key_of(address: Address) -> Key:
    return (address.platform, address.account, address.chat_id)
