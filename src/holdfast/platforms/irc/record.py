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

_LOSS_CONSEQUENCE = "what was said on IRC while the gateway was down is not looked for this time."


class IrcCheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    until: str  # everything before this moment was looked at, in every chat


class IrcCheckpoint:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, until: str) -> None:
        self._path = path
        self._saved = ""
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more
        self.until = until

    @classmethod
    async def load(cls, path: Path, *, initial: str) -> "IrcCheckpoint":
        """Who was never here before has seen everything there is."""
        written = await asyncio.to_thread(
            state_file.load, path, IrcCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        record = cls(path, initial if written is None else written.until)
        if written is None:
            await record.save()
        return record

    def advance(self, until: str) -> None:
        self.until = max(until, self.until)

    async def save(self) -> None:
        """Where it cannot be written, the older mark stands, and does no harm."""
        if self.until == self._saved:
            return
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            log.warning(
                "%s cannot be written: %s",
                self._path,
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    def _write(self) -> None:
        with self._write_lock:  # what is written last is what is known last
            until = self.until
            state_file.write_atomically(
                self._path, msgspec.json.encode(IrcCheckpointFile(until=until))
            )
            self._saved = until
