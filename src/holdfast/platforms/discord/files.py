"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.platforms.discord.client import RestApi
from holdfast.platforms.discord.wire import File, Message


def attached_to(
    message: Message, api: RestApi, *, most: int, last_try: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else is said in that channel waits behind it."""
    if not most:
        return ()
    forwarded = [file for each in message.message_snapshots for file in each.message.attachments]
    return tuple(
        Attachment(
            name=file.filename,
            size=file.size,
            fetch=_fetching(file, api, most=most, last=last_try),
        )
        for file in (*message.attachments, *forwarded)
    )


def _fetching(file: File, api: RestApi, *, most: int, last: bool) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await api.download(file.url, most=most)
        except NotConnected as error:
            if last:
                raise NoAttachment(f"it could not be fetched: {error}") from error
            raise

    return fetch
