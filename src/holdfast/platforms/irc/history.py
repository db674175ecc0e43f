"""The history that a server or bouncer keeps, and the checkpoint file that says how far it was read.

https://ircv3.net/specs/extensions/chathistory. Most messages of a channel are not for the agent and leave no row in the
inbox: without the checkpoint, they would be read again at each start.
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


# MERGED holdfast.platforms.irc.history: History: what was said while we were away, where the server or a bouncer keeps it.
#
# https://ircv3.net/specs/extensions/chathistory
REQUIRED_CAPABILITIES = frozenset({"draft/chathistory", "batch", "server-time", "message-tags"})
PLAYBACK_BATCHES = frozenset({"chathistory", "znc.in/playback"})  # batches of what was said before
_TARGETS_BATCH = "draft/chathistory-targets"
_MAX_PAGE_SIZE = 100
_TIMESTAMP_STEP = 0.001  # seconds: the finest that is told apart

MessageKey = tuple[str | None, str | None, str, tuple[str, ...]]


class HistoryRefused(HoldfastError):
    """The server does not give what was asked for, for that reason."""


class HistoryBatch:
    """Owns the lines of one batch of a kind, from when it is opened to its end.
    https://ircv3.net/specs/extensions/batch"""

    def __init__(self, batch_type: str) -> None:
        self._batch_type = batch_type
        self._reference: str | None = None
        self._messages: list[IrcMessage] = []

    def handle_message(self, message: IrcMessage) -> "list[IrcMessage] | HistoryRefused | None":
        """All of them, once it is over."""
        if message.command == "FAIL" and message.param(0) == "CHATHISTORY":
            return HistoryRefused(message.trailing)
        if message.command == "BATCH":
            return self._handle_boundary(message)
        if self._reference is not None and message.tags.get("batch") == self._reference:
            self._messages.append(message)
        return None

    def _handle_boundary(self, message: IrcMessage) -> list[IrcMessage] | None:
        sign, name = message.param(0)[:1], message.param(0)[1:]
        if sign == "+" and self._reference is None and message.param(1) == self._batch_type:
            self._reference = name
        return self._messages if sign == "-" and name == self._reference else None


class IrcHistory:
    """Keeps nothing: what a server has is asked for when it is wanted."""

    def __init__(self, client: IrcClient, *, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        most = client.features.get("CHATHISTORY", "")
        self._page_size = (
            min(_MAX_PAGE_SIZE, int(most)) if most.isdecimal() and int(most) else _MAX_PAGE_SIZE
        )

    async def chats_since(self, since: str) -> list[str] | None:
        """The channels, and the nicks of people, where something was said since then; None: the
        server does not say. Raises `NotConnected`."""
        until = format_timestamp(
            self._now() + 86400
        )  # the clock of the server may be ahead of ours
        found: dict[str, None] = {}
        while True:
            question = (
                f"timestamp={_just_before(since)}",
                f"timestamp={until}",
                str(self._page_size),
            )
            try:
                page = await self._request_batch(_TARGETS_BATCH, "TARGETS", *question)
            except HistoryRefused:
                return None
            known = len(found)
            found |= dict.fromkeys(heard.param(1) for heard in page)
            if len(found) == known or len(page) < self._page_size:
                return [each for each in found if each]
            since = page[-1].param(2) or since

    async def messages_since(self, target: str, timestamp: str) -> AsyncIterator[IrcMessage]:
        """Oldest first, that moment included: two things may have been said in it, of which one is
        known. Raises `NotConnected`."""
        last: set[MessageKey] = set()
        after = _just_before(timestamp)
        while page := await self._fetch_page(target, after):
            for heard in page:
                if _message_key(heard) not in last:
                    yield heard
            # A server may give fewer than it was asked for and have more: it is asked until
            # nothing later comes.
            last, end = {_message_key(heard) for heard in page}, page[-1].tags.get("time", "")
            if end <= timestamp:
                return
            # All of one instant: what else was said in it is not to be had.
            after = end if page[0].tags.get("time") == end else _just_before(end)
            timestamp = end

    async def _fetch_page(self, target: str, after_timestamp: str) -> list[IrcMessage]:
        try:
            return await self._request_batch(
                "chathistory", "AFTER", target, f"timestamp={after_timestamp}", str(self._page_size)
            )
        except HistoryRefused as error:
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                target,
                error,
                extra={"action": "history_refused"},
            )
            return []

    async def _request_batch(self, batch_type: str, *arguments: str) -> list[IrcMessage]:
        try:
            told: list[IrcMessage] | HistoryRefused = await self._client.request(
                ("CHATHISTORY", *arguments), HistoryBatch(batch_type).handle_message
            )
        except OutcomeUnknown as error:  # asking again does no harm
            raise NotConnected(str(error)) from error
        if isinstance(told, HistoryRefused):
            raise told
        return told


def format_timestamp(seconds: float) -> str:
    """https://ircv3.net/specs/extensions/server-time. Such stamps sort as the times they name."""
    moment = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return moment.replace("+00:00", "Z")


def format_position(timestamp: str, event_id: str) -> str:
    """How far something was looked at: to which moment, and what was the last thing of it."""
    return f"{timestamp} {event_id}"


def parse_position(position: str) -> tuple[str, str]:
    """The moment, and the event that is known already; "": none of it is."""
    moment, _, event_id = position.partition(" ")
    return moment, event_id


def subtract_seconds(timestamp: str, seconds: float) -> str:
    """A stamp that is none stays as it is."""
    try:
        return format_timestamp(datetime.fromisoformat(timestamp).timestamp() - seconds)
    except ValueError:
        return timestamp


def _just_before(timestamp: str) -> str:
    return subtract_seconds(timestamp, _TIMESTAMP_STEP)


def _message_key(message: IrcMessage) -> MessageKey:
    return message.tags.get("msgid"), message.tags.get("time"), message.source, message.params


# MERGED holdfast.platforms.irc.record: The record: how far the history of a network was looked at, which no row of the inbox says.
#
# Most of what is said in a channel is not for the agent, and leaves no row. Without this mark, what
# was said before the first row of a channel would be looked at again at each start, and all that was
# ever said there at the first one.
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
