"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.wire import DiscordFile, DiscordMessage


def attachments_of(
    message: DiscordMessage, client: DiscordClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else is said in that channel waits behind it."""
    if not max_bytes:
        return ()
    forwarded = [file for each in message.message_snapshots for file in each.message.attachments]
    return tuple(
        Attachment(
            name=file.filename,
            size=file.size,
            fetch=_make_fetch(file, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for file in (*message.attachments, *forwarded)
    )


def _make_fetch(
    file: DiscordFile, client: DiscordClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await client.download(file.url, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch
