"""Fetches the messages that were written in Slack while the gateway was disconnected, from each
chat's history. Slack redelivers an event only for some minutes; the history has it for longer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from holdfast.core.errors import (
    IntakeClosed,
    NotConnected,
    OutcomeUnknown,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.platforms.inbound import backoff_delays
from holdfast.platforms.slack.checkpoint import SlackCheckpoint, ts_seconds
from holdfast.platforms.slack.client import SlackClient, UnreadableResponse
from holdfast.platforms.slack.events import SlackMessage, SlackPageCursor
from holdfast.platforms.slack.receiver import SlackReceiver

log = logging.getLogger(__name__)

_PAGE_SIZE = 200
_MAX_PAGES = 50  # of one chat


class BacklogPage(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/conversations.history, with messages not parsed
    yet."""

    messages: tuple[dict[str, Any], ...] = ()
    response_metadata: SlackPageCursor | None = None


class SlackBacklog:
    """The missed messages of one connection. Owns which chats are not read yet; the checkpoint
    knows how far messages were processed."""

    def __init__(
        self,
        client: SlackClient,
        checkpoint: SlackCheckpoint,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._checkpoint = checkpoint
        self._sleep = sleep
        self._since = self._newest = checkpoint.until
        self._channel_types = checkpoint.chats
        # The chats that are not read yet, with what to read of each: itself (None), its threads.
        self._unread: dict[str, list[str | None]] = {chat: [None] for chat in self._channel_types}
        for chat, thread in checkpoint.threads:
            self._unread.setdefault(chat, []).append(thread)
        self._locks: dict[str, asyncio.Lock] = {}

    async def fetch_missed(self, receiver: SlackReceiver) -> None:
        """Passes missed messages to the receiver, chat by chat and thread by thread, each in its
        order. Intake ignores those that it already has. Also after a brief disconnect: Slack would
        redeliver the events of a restart only after one minute, and after five.

        Raises `NotConnected` if Slack does not respond. Nothing is lost then: the checkpoint does
        not advance.
        """
        while self._unread:
            await self.catch_up(receiver, next(iter(self._unread)))
        self._checkpoint.finish_backlog(self._newest)

    async def catch_up(self, receiver: SlackReceiver, chat: str) -> None:
        """Returns once the missed messages of that chat were passed to the receiver, so that a new
        message of the chat waits for these alone. Raises `NotConnected`."""
        if chat not in self._unread:
            return
        async with self._locks.setdefault(chat, asyncio.Lock()):
            for thread in self._unread.get(chat, ()):
                last = await self._fetch_chat(
                    receiver, chat, self._channel_types.get(chat, ""), self._since, thread=thread
                )
                self._newest = max(self._newest, last)
            self._unread.pop(chat, None)

    async def _fetch_chat(
        self,
        receiver: SlackReceiver,
        chat: str,
        channel_type: str,
        since: float,
        *,
        thread: str | None = None,
    ) -> float:
        """Returns the time of the last message found, or `since`."""
        missed: list[SlackMessage] = []
        try:
            async for raw in self._iterate_history(chat, since, thread):
                message = _parse_message(raw, chat, channel_type)
                if message is not None and ts_seconds(message.ts) > since:
                    missed.append(message)
        except SendRejected as error:  # the app was removed from the chat, or may not read it
            log.info(
                "Could not fetch missed messages of %s, which are skipped: %s",
                chat,
                error,
                extra={"action": "history_refused"},
            )
        missed.sort(key=lambda each: ts_seconds(each.ts))
        for message in missed:
            await self._submit(receiver, message)
        return ts_seconds(missed[-1].ts) if missed else since

    async def _iterate_history(
        self, chat: str, since: float, thread: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        """In no fixed order: a chat's history starts with the newest message, a thread's with the
        oldest."""
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._fetch_page(chat, since, thread, cursor)
            for message in page.messages:
                yield message
            cursor = page.response_metadata.next_cursor if page.response_metadata else None
            if not cursor:
                return
        log.warning(
            "Too many missed messages in %s: the oldest, beyond %d, are skipped",
            chat,
            _MAX_PAGES * _PAGE_SIZE,
            extra={"action": "history_truncated"},
        )

    async def _fetch_page(
        self, chat: str, since: float, thread: str | None, cursor: str | None
    ) -> BacklogPage:
        while True:
            try:
                return await self._client.call_form(
                    "conversations.replies" if thread else "conversations.history",
                    BacklogPage,
                    channel=chat,
                    ts=thread,
                    oldest=f"{since:.6f}",
                    cursor=cursor,
                    limit=_PAGE_SIZE,
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
            except UnreadableResponse as error:  # permanent: the whole page is unreadable
                raise SendRejected("{error}", error=error) from error
            except OutcomeUnknown as error:  # a read may be repeated
                raise NotConnected("{error}", error=error) from error

    async def _submit(self, receiver: SlackReceiver, message: SlackMessage) -> None:
        for delay in backoff_delays():
            try:
                await receiver.handle_history_message(message)
                return
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "Could not accept a missed message from Slack: %s; retrying",
                    error,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(delay)


def _parse_message(raw: dict[str, Any], chat: str, channel_type: str) -> SlackMessage | None:
    """Adds the chat, which messages of a history do not contain."""
    try:
        return msgspec.convert({**raw, "channel": chat, "channel_type": channel_type}, SlackMessage)
    except msgspec.ValidationError as error:
        log.warning(
            "Skipping an invalid message in Slack's history: %s",
            error,
            extra={"action": "message_invalid"},
        )
        return None
