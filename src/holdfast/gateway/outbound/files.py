"""Outgoing files: read from their workspace when they are sent, and looked through for secrets."""

import asyncio
from collections.abc import Callable, Iterator

from holdfast.core.errors import Refused
from holdfast.core.ids import SessionId
from holdfast.core.messages.attachment import NoAttachment
from holdfast.core.messages.outbox import OwedFile, SentFile
from holdfast.gateway.redaction import Redaction

LARGEST = 50 * 1024 * 1024  # bytes; no platform takes much more from a bot
_LOOK = 64 * 1024  # bytes
_WIDEST = 4  # bytes of one character

ReadFile = Callable[[SessionId | None, str, int], bytes]
"""A file of the workspace of a session, or one that was handed in, as a whole, unless it is larger
than so many bytes; it blocks. Raises `NoAttachment` where there is none to be read."""

DropFile = Callable[[str], None]
"""Forget a file that was handed in; it blocks, and one that is gone already is no error."""


class OutgoingFiles:
    """Keeps nothing. `read` None: this gateway has no workspaces. How many are held in memory at a
    time is up to whoever gets them; they are checked one after the other."""

    def __init__(
        self,
        read: ReadFile | None,
        *,
        redact: Redaction,
        drop: DropFile | None = None,
    ) -> None:
        self._read = read
        self._redact = redact
        self._drop = drop
        self._checking = asyncio.Lock()

    async def check(self, file: OwedFile, *, most: int | None = None) -> None:
        """Raises `Refused` where it cannot be sent, now or later; `most`: bytes that its platform
        takes, where that is known."""
        async with self._checking:
            await self._looked_at(file, min(most or LARGEST, LARGEST))

    async def get(self, file: OwedFile) -> SentFile:
        """Raises `Refused` where it cannot be sent, now or later."""
        data = await self._looked_at(file, LARGEST)
        return SentFile(name=file.path.rpartition("/")[2], data=data)

    async def done_with(self, file: OwedFile) -> None:
        """It has arrived, or never will: what was handed in for it alone is kept no longer."""
        if file.workspace is None and self._drop is not None:
            await asyncio.to_thread(self._drop, file.path)

    async def _looked_at(self, file: OwedFile, most: int) -> bytes:
        if self._read is None:
            raise Refused("this gateway keeps no files")
        return await asyncio.to_thread(self._looked_through, self._read, file, most)

    def _looked_through(self, read: ReadFile, file: OwedFile, most: int) -> bytes:
        try:
            data = read(file.workspace, file.path, most)
        except NoAttachment as error:
            raise Refused(str(error)) from error
        # A file cannot be mended as a text can: with a hole in it, it is another file.
        if any(self._redact(text) != text for text in _looks(data, self._redact.reach * _WIDEST)):
            raise Refused(f"{file.path!r} holds a secret of this gateway")
        return data


def _looks(data: bytes, overlap: int) -> Iterator[str]:
    """The text in pieces that begin before the last one ended, so that no cut divides a secret.

    To search a text keeps every other thread from running until it is done, the event loop's too:
    of a whole file that is seconds in which nobody is answered."""
    step = max(_LOOK, overlap)
    for start in range(0, len(data), step):
        yield data[max(0, start - overlap) : start + step].decode("utf-8", "replace")
