"""Finds messages that were written while the bot was disconnected: the checkpoint file, and the history of channels.

Discord does not tell a bot which direct chats it has, so the file lists them. It also says up to which message everything
was looked at: most messages of a server are not for the agent and leave no row, and would be fetched again at each start.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, Throttled, TransientStoreError
from holdfast.core.untrusted import decode_json
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.events import DiscordMessage, DiscordMessageId
from holdfast.system import state_file

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.discord.record: The record: what a bot has to know after a restart, and Discord does not tell.
#
# A bot is not told which chats of two it has: without the list, what is written there while nobody
# listens would be found by nobody. And most of what is said in a server is not for the agent, so
# no row of the inbox says that it was looked at: without the mark, all of it would be fetched again
# at each start.
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


# MERGED holdfast.platforms.discord.backlog: The backlog: what was said in a channel while nobody listened, oldest first.
_PAGE_SIZE = 100  # messages, the most that are given at once


class ChannelHistory:
    """Owns the turn in which channels are asked for: one after the other, so that a bot of many
    channels does not use up at its start what Discord grants it for its answers."""

    def __init__(
        self, client: DiscordClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._lock = asyncio.Lock()

    async def messages_after(self, channel_id: str, after: int) -> AsyncIterator[DiscordMessage]:
        """What makes no sense is passed over: asked for again, it would hold up the rest for ever.
        Raises `NotConnected` where there is no answer now, and `Refused` where the bot may not
        read the channel, or it is gone."""
        while True:
            page = await self._fetch_page(channel_id, after)
            for number in sorted(page):
                if (message := _decode_message(page[number])) is not None:
                    yield message
                after = number
            if len(page) < _PAGE_SIZE:
                return

    async def _fetch_page(self, channel_id: str, after: int) -> dict[int, msgspec.Raw]:
        """By their numbers: those that follow, though the newest of them stands first.

        https://discord.com/developers/docs/resources/message#get-channel-messages
        """
        query = {"after": str(after), "limit": str(_PAGE_SIZE)}
        async with self._lock:
            while True:
                try:
                    path = f"/channels/{channel_id}/messages"
                    page = await self._client.call("GET", path, list[msgspec.Raw], query=query)
                    return {int(decode_json(raw, type=DiscordMessageId).id): raw for raw in page}
                except Throttled as error:
                    await self._sleep(error.retry_after)
                except OutcomeUnknown as error:  # asking again does no harm
                    raise NotConnected(str(error)) from error


def _decode_message(raw: msgspec.Raw) -> DiscordMessage | None:
    try:
        return decode_json(raw, type=DiscordMessage)
    except msgspec.MsgspecError as error:
        log.warning(
            "A message of Discord makes no sense and is passed over: %s",
            error,
            extra={"action": "message_invalid"},
        )
        return None
