"""The record: what a bot has to know after a restart, and Discord does not tell.

A bot is not told which chats of two it has: without the list, what is written there while nobody
listens would be found by nobody. And most of what is said in a server is not for the agent, so
no row of the inbox says that it was looked at: without the mark, all of it would be fetched again
at each start.
"""

import asyncio
import logging
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import TransientStoreError
from holdfast.system import state_file

log = logging.getLogger(__name__)

_LOSS_CONSEQUENCE = (
    "what was written in Discord while the gateway was down is not looked for this time."
)


class DiscordCheckpointData(msgspec.Struct, frozen=True, kw_only=True):
    until: int  # everything before this snowflake was looked at, in every channel
    dms: tuple[str, ...] = ()


class DiscordCheckpoint:
    """Owns one file, which is replaced as a whole. What it says may be old: whoever goes by it
    looks at some messages twice, and at none never."""

    def __init__(self, path: Path, data: DiscordCheckpointData) -> None:
        self._path = path
        self._until = self._saved_until = data.until
        self._dms = dict.fromkeys(data.dms)
        self._saved_dms = set(data.dms)
        self._write_lock = Lock()  # of a thread, which goes on when nobody waits for it any more

    @classmethod
    async def load(cls, path: Path, *, start: int) -> "DiscordCheckpoint":
        """A bot that was never here before has seen everything there is."""
        written = await asyncio.to_thread(
            state_file.load, path, DiscordCheckpointData, consequence=_LOSS_CONSEQUENCE
        )
        record = cls(path, written or DiscordCheckpointData(until=start))
        if written is None:
            await record.save()
        return record

    @property
    def until(self) -> int:
        return self._until

    @property
    def dms(self) -> tuple[str, ...]:
        return tuple(self._dms)

    async def add_dm(self, channel_id: str) -> None:
        """Durable when this returns: the first message of a chat is handed over after that.
        Raises `TransientStoreError`."""
        if channel_id in self._saved_dms:
            return
        self._dms[channel_id] = None
        await self.save()
        self._saved_dms.add(channel_id)

    async def advance(self, until: int) -> None:
        """Written when this returns, also where an earlier call was cancelled half-way; where it
        cannot be, the older mark stands."""
        self._until = max(until, self._until)
        if self._until == self._saved_until:
            return
        try:
            await self.save()
        except TransientStoreError as error:
            # An older mark does no harm, and the next one is not far.
            log.warning("%s", error, extra={"action": "checkpoint_not_saved"})

    async def save(self) -> None:
        try:
            await asyncio.to_thread(self._save)
        except OSError as error:
            raise TransientStoreError(f"{self._path} cannot be written: {error}") from error

    def _save(self) -> None:
        with self._write_lock:  # what is written last is what is known last
            written = DiscordCheckpointData(until=self._until, dms=self.dms)
            state_file.write_atomically(self._path, msgspec.json.encode(written))
            self._saved_until = written.until
