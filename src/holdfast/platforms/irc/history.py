"""The history of a server or bouncer, and the checkpoint file that records how far it was read.

https://ircv3.net/specs/extensions/chathistory. Most messages of a channel are not for the agent and
leave no row in the inbox. Without the checkpoint, everything before the first row of a channel
would be read again at each start, and its whole history at the first one.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec

from holdfast.core.errors import HoldfastError, NotConnected, OutcomeUnknown
from holdfast.platforms.irc.client import IrcClient
from holdfast.platforms.irc.events import IrcMessage
from holdfast.system import state_file

log = logging.getLogger(__name__)

REQUIRED_CAPABILITIES = frozenset({"draft/chathistory", "batch", "server-time", "message-tags"})
PLAYBACK_BATCHES = frozenset({"chathistory", "znc.in/playback"})  # batches of older messages
_TARGETS_BATCH = "draft/chathistory-targets"
_MAX_PAGE_SIZE = 100
_TIMESTAMP_STEP = 0.001  # seconds: the resolution of timestamps
_LOSS_CONSEQUENCE = "messages from IRC while the gateway was down are not fetched this time."

MessageKey = tuple[str | None, str | None, str, tuple[str, ...]]


class HistoryRefused(HoldfastError):
    """The server refused a history request."""


class HistoryBatch:
    """Collects the messages of the first batch of one type, from its start to its end.
    https://ircv3.net/specs/extensions/batch"""

    def __init__(self, batch_type: str) -> None:
        self._batch_type = batch_type
        self._reference: str | None = None
        self._messages: list[IrcMessage] = []

    def handle_message(self, message: IrcMessage) -> "list[IrcMessage] | HistoryRefused | None":
        """All messages of the batch once it has ended, or the refusal; None until then."""
        if message.command == "FAIL" and message.param(0) == "CHATHISTORY":
            return HistoryRefused(message.trailing)
        if message.command == "BATCH":
            return self._handle_boundary(message)
        if self._reference is not None and message.tags.get("batch") == self._reference:
            self._messages.append(message)
        return None

    def _handle_boundary(self, message: IrcMessage) -> list[IrcMessage] | None:
        marker, name = message.param(0)[:1], message.param(0)[1:]
        if marker == "+" and self._reference is None and message.param(1) == self._batch_type:
            self._reference = name
        return self._messages if marker == "-" and name == self._reference else None


class IrcHistory:
    """Requests history from the server, page by page. Has no state of its own."""

    def __init__(self, client: IrcClient, *, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        limit = client.features.get("CHATHISTORY", "")
        self._page_size = (
            min(_MAX_PAGE_SIZE, int(limit)) if limit.isdecimal() and int(limit) else _MAX_PAGE_SIZE
        )

    async def chats_since(self, since: str) -> list[str] | None:
        """The channels and nicks with messages since then; None if the server cannot list them.
        Raises `NotConnected`."""
        # One day ahead: the clock of the server may be ahead of ours.
        until = format_timestamp(self._now() + 86400)
        found: dict[str, None] = {}
        while True:
            arguments = (
                f"timestamp={_just_before(since)}",
                f"timestamp={until}",
                str(self._page_size),
            )
            try:
                page = await self._request_batch(_TARGETS_BATCH, "TARGETS", *arguments)
            except HistoryRefused:
                return None
            known = len(found)
            found |= dict.fromkeys(each.param(1) for each in page)
            if len(found) == known or len(page) < self._page_size:
                return [each for each in found if each]
            since = page[-1].param(2) or since

    async def messages_since(self, target: str, timestamp: str) -> AsyncIterator[IrcMessage]:
        """Oldest first, from that timestamp on, inclusive: of two messages with the same timestamp,
        one may be known and the other not. Raises `NotConnected`."""
        last: set[MessageKey] = set()
        after = _just_before(timestamp)
        while page := await self._fetch_page(target, after):
            for message in page:
                if _message_key(message) not in last:
                    yield message
            # A server may return fewer messages than requested although it has more, so a short
            # page is not the end: continue until nothing later comes.
            last, end = {_message_key(message) for message in page}, page[-1].tags.get("time", "")
            if end <= timestamp:
                return
            # The whole page has one timestamp: further messages with it cannot be requested.
            after = end if page[0].tags.get("time") == end else _just_before(end)
            timestamp = end

    async def _fetch_page(self, target: str, after_timestamp: str) -> list[IrcMessage]:
        try:
            return await self._request_batch(
                "chathistory", "AFTER", target, f"timestamp={after_timestamp}", str(self._page_size)
            )
        except HistoryRefused as error:
            log.info(
                "Could not fetch the history of %s, which is skipped: %s",
                target,
                error,
                extra={"action": "history_refused"},
            )
            return []

    async def _request_batch(self, batch_type: str, *arguments: str) -> list[IrcMessage]:
        try:
            result: list[IrcMessage] | HistoryRefused = await self._client.request(
                ("CHATHISTORY", *arguments), HistoryBatch(batch_type).handle_message
            )
        except OutcomeUnknown as error:  # the request can safely be repeated
            raise NotConnected("{error}", error=error) from error
        if isinstance(result, HistoryRefused):
            raise result
        return result


def format_timestamp(seconds: float) -> str:
    """https://ircv3.net/specs/extensions/server-time. These timestamps sort
    in order of time."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def format_position(timestamp: str, event_id: str) -> str:
    """A position in a history: the timestamp and the id of the last event that was processed."""
    return f"{timestamp} {event_id}"


def parse_position(position: str) -> tuple[str, str]:
    """The timestamp, and the id of the last event that was processed; "" if there is none."""
    timestamp, _, event_id = position.partition(" ")
    return timestamp, event_id


def subtract_seconds(timestamp: str, seconds: float) -> str:
    """An invalid timestamp is returned unchanged."""
    try:
        return format_timestamp(datetime.fromisoformat(timestamp).timestamp() - seconds)
    except ValueError:
        return timestamp


def _just_before(timestamp: str) -> str:
    return subtract_seconds(timestamp, _TIMESTAMP_STEP)


def _message_key(message: IrcMessage) -> MessageKey:
    return message.tags.get("msgid"), message.tags.get("time"), message.source, message.params


class IrcCheckpointFile(msgspec.Struct, frozen=True, kw_only=True):
    until: str  # everything before this timestamp was processed, in every chat


class IrcCheckpoint:
    """Owns one file, which is replaced as a whole. It may lag behind: then some messages are
    processed twice, but none is missed."""

    def __init__(self, path: Path, until: str) -> None:
        self._path = path
        self._saved = ""
        self._write_lock = Lock()  # a writing thread continues after its task was cancelled
        self.until = until

    @classmethod
    async def load(cls, path: Path, *, initial: str) -> "IrcCheckpoint":
        """Without a file, starts at `initial`: a new account does not process older messages."""
        written = await asyncio.to_thread(
            state_file.load, path, IrcCheckpointFile, consequence=_LOSS_CONSEQUENCE
        )
        checkpoint = cls(path, initial if written is None else written.until)
        if written is None:
            await checkpoint.save()
        return checkpoint

    def advance(self, until: str) -> None:
        self.until = max(until, self.until)

    async def save(self) -> None:
        """If it cannot be written, the older checkpoint stays, which does no harm."""
        if self.until == self._saved:
            return
        try:
            await asyncio.to_thread(self._write)
        except OSError as error:
            log.warning(
                "Could not write the IRC checkpoint %s, so some messages may be read again: %s",
                self._path,
                error,
                extra={"action": "checkpoint_not_saved"},
            )

    def _write(self) -> None:
        with self._write_lock:  # the last write has the latest value
            until = self.until
            state_file.write_atomically(
                self._path, msgspec.json.encode(IrcCheckpointFile(until=until))
            )
            self._saved = until
