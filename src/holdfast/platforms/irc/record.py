"""The record: how far the history of a network was looked at, which no row of the inbox says.

Most of what is said in a channel is not for the agent, and leaves no row. Without this mark, what
was said before the first row of a channel would be looked at again at each start, and all that was
ever said there at the first one.
"""

import asyncio
import logging
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOST = "what was said on IRC while the gateway was down is not looked for this time."


class Written(msgspec.Struct, frozen=True, kw_only=True):
    until: str  # everything before this moment was looked at, in every chat


class Record:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, until: str) -> None:
        self._path = path
        self._written = ""
        self._writing = Lock()  # of a thread, which goes on when nobody waits for it any more
        self.until = until

    @classmethod
    async def load(cls, path: Path, *, beginning: str) -> "Record":
        """Who was never here before has seen everything there is."""
        written = await asyncio.to_thread(state_file.read, path, Written, lost=_LOST)
        record = cls(path, beginning if written is None else written.until)
        if written is None:
            await record.save()
        return record

    def move(self, until: str) -> None:
        self.until = max(until, self.until)

    async def save(self) -> None:
        """Where it cannot be written, the older mark stands, and does no harm."""
        if self.until == self._written:
            return
        try:
            await asyncio.to_thread(self._save)
        except OSError as error:
            log.warning(
                "%s cannot be written: %s", self._path, error, extra={"action": "record_unwritten"}
            )

    def _save(self) -> None:
        with self._writing:  # what is written last is what is known last
            until = self.until
            state_file.replace(self._path, msgspec.json.encode(Written(until=until)))
            self._written = until
