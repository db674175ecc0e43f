"""The queues of chats: what is owed to each of them, in order, and the signs that wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.outbound.pacing import RateGate
from holdfast.gateway.outbound.parcel import QueuedDelivery
from holdfast.gateway.outbound.passing import BestEffortOutput
from holdfast.gateway.outbound.sign import Reaction

ChatKey = tuple[str, str, str]  # platform, account, chat


class ChatQueue:
    """One chat's: order within it is kept, so one parcel is under way at a time. Signs are put
    while nothing is owed."""

    __slots__ = ("gate", "deliveries", "reactions", "first_since", "task")

    def __init__(self, clock: Clock) -> None:
        self.gate = RateGate(clock)
        self.deliveries: deque[QueuedDelivery | BestEffortOutput] = deque()
        self.reactions: deque[Reaction] = deque()
        self.first_since = clock.now()  # when the parcel in front came to be there
        self.task: asyncio.Task[None] | None = None


class ChatQueues(dict[ChatKey, ChatQueue]):
    """Of those chats to which something is owed, or a sign is to be put."""

    def find(self, address: Address) -> ChatQueue | None:
        return self.get(chat_key(address))

    @property
    def with_deliveries(self) -> Iterator[tuple[ChatKey, ChatQueue]]:
        """Those with parcels: nobody is owed a sign."""
        return ((key, chat) for key, chat in self.items() if chat.deliveries)

    @property
    def pending_count(self) -> int:
        return sum(len(chat.deliveries) for chat in self.values())

    @property
    def oldest_since(self) -> float | None:
        """When the delivery came to be in front that has been there longest; None: none is owed."""
        return min((chat.first_since for _, chat in self.with_deliveries), default=None)

    def undeliverable_counts(self, has: Callable[[str, str], bool]) -> dict[str, int]:
        """How much waits for accounts that nobody answers for any more, by account."""
        waiting: dict[str, int] = {}
        for (name, account, _), chat in self.with_deliveries:
            if not has(name, account):
                key = f"{name}:{account}"
                waiting[key] = waiting.get(key, 0) + len(chat.deliveries)
        return waiting

    def holds(self, delivery_id: DeliveryId) -> bool:
        parcels = (parcel for chat in self.values() for parcel in chat.deliveries)
        return any(isinstance(each, QueuedDelivery) and each.id == delivery_id for each in parcels)


def chat_key(address: Address) -> ChatKey:
    return (address.platform, address.account, address.chat_id)
