"""Receipts: whoever waits for the end of a delivery hears of it."""

import asyncio

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState
from holdfast.core.ports.library import Library

_ENDS = (DeliveryState.SENT, DeliveryState.FAILED)


class Receipts:
    """Owns who waits for what; most deliveries are waited for by nobody, and cost a look."""

    def __init__(self) -> None:
        self._waiting: dict[DeliveryId, set[asyncio.Event]] = {}
        self._closed = False

    def close(self) -> None:
        """Nothing is sent any more: whoever waits hears what is known by now."""
        self._closed = True
        for delivery_id in self._waiting:
            self.settled(delivery_id)

    def settled(self, delivery_id: DeliveryId) -> None:
        """Something is known of it now that was not before, and the store has it."""
        for event in self._waiting.get(delivery_id, ()):
            event.set()

    async def of(
        self, delivery_id: DeliveryId, *, library: Library, wait: float
    ) -> DeliveryRow | None:
        """The row, once it has ended or so many seconds have passed; None: there is none."""
        event = asyncio.Event()
        self._waiting.setdefault(delivery_id, set()).add(event)
        try:
            async with asyncio.timeout(wait):
                while not _is_over(await library.delivery(delivery_id)) and not self._closed:
                    await event.wait()
                    event.clear()  # before the look: what is settled behind it is not missed
        except TimeoutError:
            pass
        finally:
            self._leave(delivery_id, event)
        return await library.delivery(delivery_id)

    def _leave(self, delivery_id: DeliveryId, event: asyncio.Event) -> None:
        self._waiting[delivery_id].discard(event)
        if not self._waiting[delivery_id]:
            del self._waiting[delivery_id]


def _is_over(row: DeliveryRow | None) -> bool:
    return row is None or has_ended(row)


def has_ended(row: DeliveryRow) -> bool:
    """Nothing more is done about one that is unknown and was sent again already."""
    unknown = row.state is DeliveryState.UNKNOWN and row.resends > 0
    return row.state in _ENDS or unknown
