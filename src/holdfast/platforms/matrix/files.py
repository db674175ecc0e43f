"""Files that people send: which one a message has, and how it is fetched."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, NoAttachment
from holdfast.platforms.matrix.api import ClientApi
from holdfast.platforms.matrix.reading import FILES
from holdfast.platforms.matrix.wire import Content


def attached_to(
    content: Content, api: ClientApi, *, most: int, last_try: bool
) -> tuple[Attachment, ...]:
    """It is not fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    if content.msgtype not in FILES or not most:
        return ()
    name = content.filename or content.body or content.msgtype.removeprefix("m.")
    fetch = _fetching(content, api, most=most, last=last_try)
    return (Attachment(name=name, size=content.info.size, fetch=fetch),)


def _fetching(
    content: Content, api: ClientApi, *, most: int, last: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetched(content, api, most=most)
        except NotConnected as error:
            if last:
                raise NoAttachment(f"it could not be fetched: {error}") from error
            raise

    return fetch


async def _fetched(content: Content, api: ClientApi, *, most: int) -> bytes:
    if content.file is None:
        return await api.download(content.url, most=most)
    from holdfast.platforms.matrix.sealed_files import (  # noqa: PLC0415 - imports the library
        open_file,
    )

    data = await api.download(content.file.url, most=most)
    return await asyncio.to_thread(open_file, content.file, data)
