"""Marks: how far each archive was looked at, which no row of the inbox says.

Most of what is said in a room is not for the agent: without a mark, all of it would be fetched
again at each start. And an account that is new has seen everything that was said before it came.
"""

import asyncio
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import TransientStoreError
from holdfast.system import state_file

_LOSS_CONSEQUENCE = (
    "what was written over XMPP meanwhile is looked for only where something was taken before."
)


class ArchiveCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Believed only while the cursor is still the one that it was made beside: whoever moved that
    has taken more since."""

    position: str
    cursor: str | None = None


class ArchiveCheckpoints:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, checkpoints: dict[str, ArchiveCheckpoint]) -> None:
        self._path = path
        self._checkpoints = checkpoints
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path) -> "ArchiveCheckpoints":
        known = await asyncio.to_thread(
            state_file.load, path, dict[str, ArchiveCheckpoint], consequence=_LOSS_CONSEQUENCE
        )
        return cls(path, known or {})

    def position_for(self, archive: str, *, cursor: str | None) -> str | None:
        mark = self._checkpoints.get(archive)
        return mark.position if mark is not None and mark.cursor == cursor else cursor

    async def save(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        """Written when this returns. Raises `TransientStoreError`."""
        if self._checkpoints.get(archive) == checkpoint:
            return
        try:
            await asyncio.to_thread(self._write, archive, checkpoint)
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error

    def _write(self, archive: str, checkpoint: ArchiveCheckpoint) -> None:
        with self._write_lock:  # what is written last is what is known last
            known = {**self._checkpoints, archive: checkpoint}
            state_file.write_atomically(self._path, msgspec.json.encode(known))
            self._checkpoints = known
