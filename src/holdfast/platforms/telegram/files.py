"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable, Iterator

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.platforms.telegram.client import TelegramClient
from holdfast.platforms.telegram.wire import TelegramFileInfo, TelegramMessage

# What a kind of file is called where it has no name of its own.
_EXTENSIONS = {"voice": "ogg", "audio": "mp3", "video": "mp4", "video_note": "mp4"}


def attachments_of(
    message: TelegramMessage, client: TelegramClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    return tuple(
        Attachment(
            name=name,
            size=info.file_size,
            fetch=_make_fetch(info, client, max_bytes=max_bytes, last_attempt=last_attempt),
        )
        for name, info in _files_in(message)
    )


def _make_fetch(
    info: TelegramFileInfo, client: TelegramClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await client.download(info.file_id, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch


def _files_in(message: TelegramMessage) -> Iterator[tuple[str, TelegramFileInfo]]:
    """Of a photo the largest of its sizes, which is the last; an animation is also told as a
    document."""
    number = message.message_id
    if message.photo:
        yield f"photo-{number}.jpg", message.photo[-1]
    if message.document is not None:
        yield message.document.file_name or f"file-{number}", message.document
    kinds = (message.voice, message.audio, message.video, message.video_note)
    for (kind, ending), info in zip(_EXTENSIONS.items(), kinds, strict=True):
        if info is not None:
            yield info.file_name or f"{kind}-{number}.{ending}", info
