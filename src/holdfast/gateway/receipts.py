"""Receipts: whoever waits for the end of a delivery hears of it."""

import asyncio
from contextlib import suppress

from holdfast.core.ids import DeliveryId
from holdfast.core.library import Library
from holdfast.core.outbox import DeliveryRow, DeliveryState

_ENDS = (DeliveryState.SENT, DeliveryState.FAILED)


class Receipts:
    """Owns who waits for what; most deliveries are waited for by nobody, and cost a look."""

    def __init__(self) -> None:
        self._waiting: dict[DeliveryId, asyncio.Event] = {}

    def settled(self, delivery_id: DeliveryId) -> None:
        """Something is known of it now that was not before, and the store has it."""
        if (event := self._waiting.pop(delivery_id, None)) is not None:
            event.set()

    async def of(
        self, delivery_id: DeliveryId, *, library: Library, wait: float
    ) -> DeliveryRow | None:
        """The row, once it has ended or so many seconds have passed; None: there is none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                while True:
                    # Before the look: what is settled behind it is not missed.
                    event = self._waiting.setdefault(delivery_id, asyncio.Event())
                    row = await library.delivery(delivery_id)
                    if row is None or has_ended(row):
                        break
                    await event.wait()
        self._waiting.pop(delivery_id, None)
        return await library.delivery(delivery_id)


def has_ended(row: DeliveryRow) -> bool:
    """Nothing more is done about one that is unknown and was sent again already."""
    unknown = row.state is DeliveryState.UNKNOWN and row.resends > 0
    return row.state in _ENDS or unknown
