"""Finding: whether a delivery has arrived, asked of the archive that it would be in."""

import asyncio
from collections.abc import Callable

from holdfast.core.errors import NotConnected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Receipt
from holdfast.platforms.xmpp.archive import Archive
from holdfast.platforms.xmpp.stanza import Said
from holdfast.platforms.xmpp.wire import Rejected


async def find(
    delivery_id: DeliveryId,
    archive: Archive,
    *,
    chat: str | None,
    ours: Callable[[Said], bool],
    settled: float,
) -> Receipt | None:
    """Looks through the last five hundred messages of that chat; of a room, where `chat` is None.
    What was sent before so many others is taken for lost, and sent again. `settled` are the seconds
    after which what a server was given is in its archive, or never will be."""
    await asyncio.sleep(settled)
    try:
        async for kept in archive.backwards(chat=chat):
            if kept.said.id == delivery_id and ours(kept.said):
                return Receipt(platform_message_id=delivery_id)
    except Rejected as error:  # nothing is known by that, and it may be asked again
        raise NotConnected(str(error)) from error
    return None
