"""Finds messages that were written while the bot was disconnected, with a checkpoint file and the
history of channels.

Discord does not tell a bot which direct chats it has, so the file lists them. The file also records
up to which message everything was read: most messages of a server are not for the agent and leave
no row, and would be fetched again at each start.
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

_LOSS_CONSEQUENCE = "messages written in Discord while the gateway was down are not fetched."
_PAGE_SIZE = 100  # messages, the maximum of one request


class DiscordCheckpointData(msgspec.Struct, frozen=True, kw_only=True):
    until: int  # everything before this snowflake was read, in every channel
    dms: tuple[str, ...] = ()
    start: int = 0  # from which snowflake on messages are for the bot; 0: written by 0.1.0
    unread_dms: tuple[str, ...] = ()  # new chats, whose messages since `start` are not all read yet


class DiscordCheckpoint:
    """Owns one file, which is replaced as a whole. It may be out of date: then some messages are
    read twice, but none is missed."""

    def __init__(self, path: Path, data: DiscordCheckpointData) -> None:
        self._path = path
        self._until = self._saved_until = data.until
        self._start = data.start or data.until
        self._dms = dict.fromkeys(data.dms)
        self._saved_dms = set(data.dms)
        self._unread_dms = dict.fromkeys(data.unread_dms)
        self._write_lock = Lock()  # the thread continues after its caller was cancelled

    @classmethod
    async def load(cls, path: Path, *, start: int) -> "DiscordCheckpoint":
        """Load the file. Without one, everything before `start` counts as read."""
        data = await asyncio.to_thread(
            state_file.load, path, DiscordCheckpointData, consequence=_LOSS_CONSEQUENCE
        )
        checkpoint = cls(path, data or DiscordCheckpointData(until=start, start=start))
        if data is None:
            await checkpoint.save()
        return checkpoint

    @property
    def until(self) -> int:
        return self._until

    def read_until(self, channel_id: str) -> int:
        """Everything before this snowflake was read in that direct chat. Of a chat that is new,
        nothing was since the bot runs here."""
        is_new = channel_id not in self._dms or channel_id in self._unread_dms
        return self._start if is_new else self._until

    @property
    def dms(self) -> tuple[str, ...]:
        return tuple(self._dms)

    async def add_dm(self, channel_id: str) -> None:
        """Add a direct chat. Durable when this returns: the first message of a chat is passed to
        intake after that. Raises `TransientStoreError`."""
        if channel_id in self._saved_dms:
            return
        if channel_id not in self._dms:
            self._dms[channel_id] = self._unread_dms[channel_id] = None
        await self.save()
        self._saved_dms.add(channel_id)

    def mark_read(self, channel_id: str) -> None:
        """The missed messages of a direct chat were all read. Saved with the next position: until
        then, they would be read again."""
        self._unread_dms.pop(channel_id, None)

    async def advance(self, until: int) -> None:
        """Move the checkpoint. Saved when this returns, even if an earlier call was cancelled
        half-way. If saving fails, the older position stays in the file."""
        self._until = max(until, self._until)
        if self._until == self._saved_until:
            return
        try:
            await self.save()
        except TransientStoreError as error:
            # An older position does no harm, and the next one is saved soon.
            log.warning(
                "Could not save the Discord checkpoint, so some messages may be read again: %s",
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    async def save(self) -> None:
        try:
            await asyncio.to_thread(self._save)
        except OSError as error:
            raise TransientStoreError(
                "Could not write {path}: {error}; check its permissions and the free space",
                path=self._path,
                error=error,
            ) from error

    def _save(self) -> None:
        with self._write_lock:  # the last writer has the latest position
            data = DiscordCheckpointData(
                until=self._until,
                dms=self.dms,
                start=self._start,
                unread_dms=tuple(self._unread_dms),
            )
            state_file.write_atomically(self._path, msgspec.json.encode(data))
            self._saved_until = data.until


class ChannelHistory:
    """Fetches channels one after the other, so that a bot with many channels does not use up its
    rate limit, which its replies need, at the start."""

    def __init__(
        self, client: DiscordClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._lock = asyncio.Lock()

    async def messages_after(self, channel_id: str, after: int) -> AsyncIterator[DiscordMessage]:
        """The messages after a position, oldest first. Invalid messages are skipped: retried, they
        would block the rest forever. Raises `NotConnected` if Discord does not respond now, and
        `SendRejected` if the bot may not read the channel, or it was deleted."""
        while True:
            page = await self._fetch_page(channel_id, after)
            for number in sorted(page):
                if (message := _decode_message(page[number])) is not None:
                    yield message
                after = number
            if len(page) < _PAGE_SIZE:
                return

    async def _fetch_page(self, channel_id: str, after: int) -> dict[int, msgspec.Raw]:
        """The following messages by id, although the response has the newest first.

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
                except OutcomeUnknown as error:  # repeating the request does no harm
                    raise NotConnected("{error}", error=error) from error


def _decode_message(raw: msgspec.Raw) -> DiscordMessage | None:
    try:
        return decode_json(raw, type=DiscordMessage)
    except msgspec.MsgspecError as error:
        log.warning(
            "Skipping an invalid message from Discord: %s",
            error,
            extra={"action": "message_invalid"},
        )
        return None
