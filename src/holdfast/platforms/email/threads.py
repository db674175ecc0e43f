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

_MOST_NAMES = 10  # of mails that an answer refers to: the first and the last ones
_LOST = "an answer in this thread begins one of its own."
_KEPT = 400 * 86400.0  # seconds since it was last written in


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """`references` ends with the mail that is to be answered."""

    subject: str
    references: tuple[str, ...]


class Threads:
    """Owns a folder with one small file a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def keep(self, chat: str, thread: str, known: Thread) -> bool:
        """Whether it is a new one. Durable when this returns: an answer may be owed from then on.
        Raises `StoreFailing`."""
        fresh = await self.get(chat, thread) is None
        first, *rest = known.references
        names = (first, *rest[1 - _MOST_NAMES :])
        kept = msgspec.structs.replace(known, references=names)
        await state_file.keep(self._path(chat, thread), kept)
        return fresh

    async def get(self, chat: str, thread: str) -> Thread | None:
        """None: nothing is known of it, and an answer begins one of its own."""
        path = self._path(chat, thread)
        return await asyncio.to_thread(state_file.read, path, Thread, lost=_LOST)

    async def forget(self, chat: str, thread: str) -> None:
        await asyncio.to_thread(self._path(chat, thread).unlink, missing_ok=True)

    async def tidy(self, now: float) -> None:
        """Those in which nobody has written for more than a year go."""
        try:
            await asyncio.to_thread(self._tidy, now - _KEPT)
        except OSError as error:
            log.warning("Threads are not tidied: %s", error, extra={"action": "threads_untidied"})

    def _tidy(self, before: float) -> None:
        for path in self._folder.glob("*.json"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _path(self, chat: str, thread: str) -> Path:
        return self._folder / f"{digest(chat, thread)}.json"
