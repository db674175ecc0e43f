"""Files that people send: which one a message has, and how it is fetched."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.errors import NotConnected
from holdfast.core.messages.attachment import Attachment, AttachmentUnavailable
from holdfast.platforms.matrix.api import MatrixClient
from holdfast.platforms.matrix.reading import FILE_MESSAGE_TYPES
from holdfast.platforms.matrix.wire import MatrixContent


def attachments_of(
    content: MatrixContent, client: MatrixClient, *, max_bytes: int, last_attempt: bool
) -> tuple[Attachment, ...]:
    """It is not fetched yet. `most` is in bytes. At the last try, what cannot be fetched is not to
    be had: whatever else people say waits behind it."""
    if content.msgtype not in FILE_MESSAGE_TYPES or not max_bytes:
        return ()
    name = content.filename or content.body or content.msgtype.removeprefix("m.")
    fetch = _make_fetch(content, client, max_bytes=max_bytes, last_attempt=last_attempt)
    return (Attachment(name=name, size=content.info.size, fetch=fetch),)


def _make_fetch(
    content: MatrixContent, client: MatrixClient, *, max_bytes: int, last_attempt: bool
) -> Callable[[], Awaitable[bytes]]:
    async def fetch() -> bytes:
        try:
            return await _fetch_file(content, client, max_bytes=max_bytes)
        except NotConnected as error:
            if last_attempt:
                raise AttachmentUnavailable(f"it could not be fetched: {error}") from error
            raise

    return fetch


async def _fetch_file(content: MatrixContent, client: MatrixClient, *, max_bytes: int) -> bytes:
    if content.file is None:
        return await client.download(content.url, max_bytes=max_bytes)
    from holdfast.platforms.matrix.sealed_files import (  # noqa: PLC0415 - imports the library
        decrypt_file,
    )

    data = await client.download(content.file.url, max_bytes=max_bytes)
    return await asyncio.to_thread(decrypt_file, content.file, data)
