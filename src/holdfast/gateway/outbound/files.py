"""Outgoing files: read from the workspace when they are sent, refused if they contain a secret."""

import asyncio
from collections.abc import Callable, Iterator

from holdfast.core.errors import SendRejected
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import OutboundFile, PendingFile
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.gateway.redaction import Redaction

MAX_FILE_BYTES = 50 * 1024 * 1024  # bytes; few platforms accept more from a bot
_CHUNK_BYTES = 64 * 1024  # bytes
_MAX_CHAR_BYTES = 4  # bytes of one character

ReadFile = Callable[[SessionId | None, str, int], bytes]
"""Reads a file of a session's workspace, or one that was uploaded for the delivery, as a whole
unless it is larger than the given number of bytes. Blocks. Raises `AttachmentUnavailable` if it
cannot be read."""

DeleteFile = Callable[[str], None]
"""Deletes a file that was uploaded for the delivery. Blocks. A file that is already gone is no
error."""


class OutgoingFiles:
    """Loads and checks outgoing files. Keeps nothing. `read` is None if this gateway has no
    workspaces. Callers limit how many files are in memory at a time; files are checked one after
    the other."""

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
        """Raise `SendRejected` if the file cannot be sent, now or later. `max_bytes` is the limit
        of its platform, if known."""
        async with self._checking:
            await self._read_checked(file, min(max_bytes or MAX_FILE_BYTES, MAX_FILE_BYTES))

    async def load(self, file: PendingFile) -> OutboundFile:
        """Read the file. Raises `SendRejected` if it cannot be sent, now or later."""
        data = await self._read_checked(file, MAX_FILE_BYTES)
        return OutboundFile(name=file.path.rpartition("/")[2], data=data)

    async def discard(self, file: PendingFile) -> None:
        """Delete the file if it was uploaded for this delivery alone: it has arrived, or never
        will."""
        if file.workspace is None and self._delete is not None:
            await asyncio.to_thread(self._delete, file.path)

    async def _read_checked(self, file: PendingFile, max_bytes: int) -> bytes:
        if self._read is None:
            raise SendRejected("this gateway has no workspaces, so it cannot send files")
        return await asyncio.to_thread(self._read_and_check, self._read, file, max_bytes)

    def _read_and_check(self, read: ReadFile, file: PendingFile, max_bytes: int) -> bytes:
        try:
            data = read(file.workspace, file.path, max_bytes)
        except AttachmentUnavailable as error:
            raise SendRejected("{error}", error=error) from error
        # A secret cannot be redacted from a file as from a text: the file would be another one.
        if any(
            self._redact(text) != text
            for text in _overlapping_chunks(data, self._redact.max_match_length * _MAX_CHAR_BYTES)
        ):
            raise SendRejected(
                "{path!r} contains a secret of this gateway, so it is not sent. Remove the "
                "secret from the file",
                path=file.path,
            )
        return data


def _overlapping_chunks(data: bytes, overlap: int) -> Iterator[str]:
    """The text in overlapping pieces, so that no cut divides a secret.

    Searching a text holds the interpreter lock until it is done and blocks the event loop.
    Searching a whole file at once would take seconds in which no message is answered.
    """
    step = max(_CHUNK_BYTES, overlap)
    for start in range(0, len(data), step):
        yield data[max(0, start - overlap) : start + step].decode("utf-8", "replace")
