"""Files to be sent: read from the workspace when sent, refused if they contain a secret."""

import asyncio
from collections.abc import Callable, Iterator

from holdfast.core.errors import SendRejected
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import OutboundFile, PendingFile
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.gateway.redaction import Redaction

MAX_FILE_BYTES = 50 * 1024 * 1024  # bytes; no platform takes much more from a bot
_CHUNK_BYTES = 64 * 1024  # bytes
_MAX_CHAR_BYTES = 4  # bytes of one character

ReadFile = Callable[[SessionId | None, str, int], bytes]
"""A file of the workspace of a session, or one that was handed in, as a whole, unless it is larger
than so many bytes; it blocks. Raises `AttachmentUnavailable` where there is none to be read."""

DeleteFile = Callable[[str], None]
"""Forget a file that was handed in; it blocks, and one that is gone already is no error."""


class OutgoingFiles:
    """Keeps nothing. `read` None: this gateway has no workspaces. How many are held in memory at a
    time is up to whoever gets them; they are checked one after the other."""

    def __init__(
        self,
        read: ReadFile | None,
        *,
        redact: Redaction,
        delete: DeleteFile | None = None,
    ) -> None:
        self._read = read
        self._redact = redact
        self._delete = delete
        self._checking = asyncio.Lock()

    async def check(self, file: PendingFile, *, max_bytes: int | None = None) -> None:
        """Raises `SendRejected` where it cannot be sent, now or later; `max_bytes`: what its
        platform takes, where that is known."""
        async with self._checking:
            await self._read_checked(file, min(max_bytes or MAX_FILE_BYTES, MAX_FILE_BYTES))

    async def load(self, file: PendingFile) -> OutboundFile:
        """Raises `SendRejected` where it cannot be sent, now or later."""
        data = await self._read_checked(file, MAX_FILE_BYTES)
        return OutboundFile(name=file.path.rpartition("/")[2], data=data)

    async def discard(self, file: PendingFile) -> None:
        """It has arrived, or never will: what was handed in for it alone is kept no longer."""
        if file.workspace is None and self._delete is not None:
            await asyncio.to_thread(self._delete, file.path)

    async def _read_checked(self, file: PendingFile, max_bytes: int) -> bytes:
        if self._read is None:
            raise SendRejected("this gateway keeps no files")
        return await asyncio.to_thread(self._read_and_check, self._read, file, max_bytes)

    def _read_and_check(self, read: ReadFile, file: PendingFile, max_bytes: int) -> bytes:
        try:
            data = read(file.workspace, file.path, max_bytes)
        except AttachmentUnavailable as error:
            raise SendRejected(str(error)) from error
        # A file cannot be mended as a text can: with a hole in it, it is another file.
        if any(
            self._redact(text) != text
            for text in _overlapping_chunks(data, self._redact.max_match_length * _MAX_CHAR_BYTES)
        ):
            raise SendRejected(f"{file.path!r} holds a secret of this gateway")
        return data


def _overlapping_chunks(data: bytes, overlap: int) -> Iterator[str]:
    """The text in pieces that begin before the last one ended, so that no cut divides a secret.

    To search a text keeps every other thread from running until it is done, the event loop's too:
    of a whole file that is seconds in which nobody is answered."""
    step = max(_CHUNK_BYTES, overlap)
    for start in range(0, len(data), step):
        yield data[max(0, start - overlap) : start + step].decode("utf-8", "replace")
