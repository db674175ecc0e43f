"""Files that people send: which of them a message has, and how each is fetched."""

from collections.abc import Awaitable, Callable, Iterator

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.platforms.telegram.client import BotApi
from holdfast.platforms.telegram.wire import FileInfo, Message

# What a kind of file is called where it has no name of its own.
_ENDINGS = {"voice": "ogg", "audio": "mp3", "video": "mp4", "video_note": "mp4"}


def attached_to(
    message: Message, api: BotApi, *, most: int, last_try: bool
) -> tuple[Attachment, ...]:
    """None is fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    return tuple(
        Attachment(
            name=name, size=info.file_size, fetch=_fetching(info, api, most=most, last=last_try)
        )
        for name, info in _files(message)
    )


def _fetching(
    info: FileInfo, api: BotApi, *, most: int, last: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await api.download(info.file_id, most=most)
        except NotConnected as error:
            if last:
                raise NoAttachment(f"it could not be fetched: {error}") from error
            raise

    return fetch


def _files(message: Message) -> Iterator[tuple[str, FileInfo]]:
    """Of a photo the largest of its sizes, which is the last; an animation is also told as a
    document."""
    number = message.message_id
    if message.photo:
        yield f"photo-{number}.jpg", message.photo[-1]
    if message.document is not None:
        yield message.document.file_name or f"file-{number}", message.document
    kinds = (message.voice, message.audio, message.video, message.video_note)
    for (kind, ending), info in zip(_ENDINGS.items(), kinds, strict=True):
        if info is not None:
            yield info.file_name or f"{kind}-{number}.{ending}", info
