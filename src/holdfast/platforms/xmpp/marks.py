"""Marks: how far each archive was looked at, which no row of the inbox says.

Most of what is said in a room is not for the agent: without a mark, all of it would be fetched
again at each start. And an account that is new has seen everything that was said before it came.
"""

import asyncio
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import StoreFailing
from holdfast.system import state_file

_LOST = "what was written over XMPP meanwhile is looked for only where something was taken before."


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """Believed only while the cursor is still the one that it was made beside: whoever moved that
    has taken more since."""

    position: str
    cursor: str | None = None


class Marks:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, known: dict[str, Mark]) -> None:
        self._path = path
        self._known = known
        self._writing = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path) -> "Marks":
        known = await asyncio.to_thread(state_file.read, path, dict[str, Mark], lost=_LOST)
        return cls(path, known or {})

    def of(self, archive: str, *, cursor: str | None) -> str | None:
        mark = self._known.get(archive)
        return mark.position if mark is not None and mark.cursor == cursor else cursor

    async def move(self, archive: str, mark: Mark) -> None:
        """Written when this returns. Raises `StoreFailing`."""
        if self._known.get(archive) == mark:
            return
        try:
            await asyncio.to_thread(self._save, archive, mark)
        except OSError as error:
            raise StoreFailing(f"{self._path} cannot be written: {error}") from error

    def _save(self, archive: str, mark: Mark) -> None:
        with self._writing:  # what is written last is what is known last
            known = {**self._known, archive: mark}
            state_file.replace(self._path, msgspec.json.encode(known))
            self._known = known
