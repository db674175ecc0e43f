"""Marks: how far each archive was looked at, which no row of the inbox says.

Most of what is said in a room is not for the agent: without a mark, all of it would be fetched
again at each start. And an account that is new has seen everything that was said before it came.
"""

import asyncio
import logging
import os
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import StoreFailing

log = logging.getLogger(__name__)


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
        return cls(path, await asyncio.to_thread(_read, path))

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
            _write(self._path, msgspec.json.encode(known))
            self._known = known


def _read(path: Path) -> dict[str, Mark]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Mark])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        log.warning(
            "%s makes no sense (%s) and is begun anew: what was written over XMPP while the "
            "gateway was down is looked for only where something was taken before.",
            path,
            error,
            extra={"action": "marks_unread"},
        )
        return {}


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # else a crash of the machine could take the new name away
    finally:
        os.close(folder)
