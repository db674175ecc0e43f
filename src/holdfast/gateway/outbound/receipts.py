"""Receipts: whoever waits for the end of a delivery hears of it."""

import asyncio

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.core.ports.library import StoreReader

_END_STATES = (DeliveryState.SENT, DeliveryState.FAILED)


class DeliveryWaiters:
    """Owns who waits for what; most deliveries are waited for by nobody, and cost a look."""

    def __init__(self) -> None:
        self._waiting: dict[DeliveryId, set[asyncio.Event]] = {}
        self._closed = False

    def close(self) -> None:
        """Nothing is sent any more: whoever waits hears what is known by now."""
        self._closed = True
        for delivery_id in self._waiting:
            self.notify(delivery_id)

    def notify(self, delivery_id: DeliveryId) -> None:
        """Something is known of it now that was not before, and the store has it."""
        for event in self._waiting.get(delivery_id, ()):
            event.set()

    async def wait_for_end(
        self, delivery_id: DeliveryId, *, reads: StoreReader, wait: float
    ) -> DeliveryRow | None:
        """The row, once it has ended or so many seconds have passed; None: there is none."""
        event = asyncio.Event()
        self._waiting.setdefault(delivery_id, set()).add(event)
        try:
            async with asyncio.timeout(wait):
                while not _is_over(await reads.delivery(delivery_id)) and not self._closed:
                    await event.wait()
                    event.clear()  # before the look: what is settled behind it is not missed
        except TimeoutError:
            pass
        finally:
            self._remove(delivery_id, event)
        return await reads.delivery(delivery_id)

    def _remove(self, delivery_id: DeliveryId, event: asyncio.Event) -> None:
        self._waiting[delivery_id].discard(event)
        if not self._waiting[delivery_id]:
            del self._waiting[delivery_id]


def _is_over(row: DeliveryRow | None) -> bool:
    return row is None or has_ended(row)


def has_ended(row: DeliveryRow) -> bool:
    """Nothing more is done about one that is unknown and was sent again already."""
    unknown = row.state is DeliveryState.UNKNOWN and row.resends > 0
    return row.state in _END_STATES or unknown
