"""Threads: what an answer has to say so that programs show it under what it answers.

A delivery says to whom it goes and into which thread; the subject of that thread and the names of
its mails are nobody's business but of this platform, so they are kept here.
"""

import asyncio
import logging
from pathlib import Path

import msgspec

from holdfast.platforms.email.names import digest
from holdfast.system import state_file

log = logging.getLogger(__name__)

_MAX_REFERENCES = 10  # of mails that an answer refers to: the first and the last ones
_LOSS_CONSEQUENCE = "an answer in this thread begins one of its own."
_RETENTION_SECONDS = 400 * 86400.0  # seconds since it was last written in


class EmailThread(msgspec.Struct, frozen=True, kw_only=True):
    """`references` ends with the mail that is to be answered."""

    subject: str
    references: tuple[str, ...]


class ThreadFiles:
    """Owns a folder with one small file a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, chat: str, thread_id: str, details: EmailThread) -> bool:
        """Whether it is a new one. Durable when this returns: an answer may be owed from then on.
        Raises `TransientStoreError`."""
        fresh = await self.get(chat, thread_id) is None
        first, *rest = details.references
        names = (first, *rest[1 - _MAX_REFERENCES :])
        kept = msgspec.structs.replace(details, references=names)
        await state_file.save(self._path(chat, thread_id), kept)
        return fresh

    async def get(self, chat: str, thread_id: str) -> EmailThread | None:
        """None: nothing is known of it, and an answer begins one of its own."""
        path = self._path(chat, thread_id)
        return await asyncio.to_thread(
            state_file.load, path, EmailThread, consequence=_LOSS_CONSEQUENCE
        )

    async def delete(self, chat: str, thread_id: str) -> None:
        await asyncio.to_thread(self._path(chat, thread_id).unlink, missing_ok=True)

    async def remove_stale(self, now: float) -> None:
        """Those in which nobody has written for more than a year go."""
        try:
            await asyncio.to_thread(self._remove_stale_files, now - _RETENTION_SECONDS)
        except OSError as error:
            log.warning(
                "Threads are not tidied: %s", error, extra={"action": "threads_not_cleaned"}
            )

    def _remove_stale_files(self, before: float) -> None:
        for path in self._folder.glob("*.json"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _path(self, chat: str, thread_id: str) -> Path:
        return self._folder / f"{digest(chat, thread_id)}.json"
