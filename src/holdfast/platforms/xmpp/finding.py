"""Finding: whether a delivery has arrived, asked of the archive that it would be in."""

import asyncio
from collections.abc import Callable

from holdfast.core.errors import NotConnected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Receipt
from holdfast.platforms.xmpp.archive import MessageArchive
from holdfast.platforms.xmpp.stanza import XmppMessage
from holdfast.platforms.xmpp.wire import StanzaRejected


async def find_in_archive(
    delivery_id: DeliveryId,
    archive: MessageArchive,
    *,
    chat: str | None,
    is_ours: Callable[[XmppMessage], bool],
    settle_seconds: float,
) -> Receipt | None:
    """Looks through the last five hundred messages of that chat; of a room, where `chat` is None.
    What was sent before so many others is taken for lost, and sent again. `settled` are the seconds
    after which what a server was given is in its archive, or never will be."""
    await asyncio.sleep(settle_seconds)
    try:
        async for kept in archive.newest_first(chat=chat):
            if kept.message.id == delivery_id and is_ours(kept.message):
                return Receipt(platform_message_id=delivery_id)
    except StanzaRejected as error:  # nothing is known by that, and it may be asked again
        raise NotConnected(str(error)) from error
    return None
