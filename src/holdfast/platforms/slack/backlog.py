"""Fetches the messages that were written in Slack while the gateway was disconnected, from each chat's history.

Slack redelivers an event only for some minutes; the history has it for longer.
"""

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
_MAX_PAGES = 50  # of one chat: more than anybody reads who comes back


class BacklogPage(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/conversations.history, each message as it comes."""

    messages: tuple[dict[str, Any], ...] = ()
    response_metadata: SlackPageCursor | None = None


class SlackBacklog:
    """Owns nothing: how far was looked is the record's to know."""

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

    async def fetch_missed(self, receiver: SlackReceiver, *, now: float) -> None:
        """Hand over what was missed, chat by chat and thread by thread, each in its order. What was
        heard before is known to intake, and counts once. After a restart nobody has to be asked.

        Raises `NotConnected` where Slack gives no answer: nothing is lost by that, the mark stays.
        """
        since = newest = self._checkpoint.until
        if self._checkpoint.was_disconnected_briefly(now):
            self._checkpoint.finish_backlog()
            return
        chats = self._checkpoint.chats
        for chat, kind in chats.items():
            newest = max(newest, await self._fetch_chat(receiver, chat, kind, since))
        for chat, thread in self._checkpoint.threads:
            kind = chats.get(chat, "")
            newest = max(newest, await self._fetch_chat(receiver, chat, kind, since, thread=thread))
        self._checkpoint.finish_backlog(newest)

    async def _fetch_chat(
        self,
        receiver: SlackReceiver,
        chat: str,
        channel_type: str,
        since: float,
        *,
        thread: str | None = None,
    ) -> float:
        """When the last of it was said."""
        missed: list[SlackMessage] = []
        try:
            async for raw in self._iterate_history(chat, since, thread):
                if (message := _parse_message(raw, chat, channel_type)) and ts_seconds(
                    message.ts
                ) > since:
                    missed.append(message)
        except SendRejected as error:  # the app was sent away from there, or may not read it
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
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
        """In whatever order: a history begins with its last word, a thread with its first."""
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._fetch_page(chat, since, thread, cursor)
            for message in page.messages:
                yield message
            cursor = page.response_metadata.next_cursor if page.response_metadata else None
            if not cursor:
                return
        log.warning(
            "More was said in %s meanwhile than is looked through: its oldest part is passed over.",
            chat,
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
            except (
                UnreadableResponse
            ) as error:  # for good: what stands beside it there goes with it
                raise SendRejected(str(error)) from error
            except OutcomeUnknown as error:  # asking again does no harm
                raise NotConnected(str(error)) from error

    async def _submit(self, receiver: SlackReceiver, message: SlackMessage) -> None:
        for pause in backoff_delays():
            try:
                await receiver.handle_history_message(message)
                return
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What was said in Slack meanwhile is not taken: %s",
                    error,
                    extra={"action": "receiver_retrying"},
                )
                await self._sleep(pause)


def _parse_message(raw: dict[str, Any], chat: str, channel_type: str) -> SlackMessage | None:
    """A history does not say of each message where it stands."""
    try:
        return msgspec.convert({**raw, "channel": chat, "channel_type": channel_type}, SlackMessage)
    except msgspec.ValidationError as error:
        log.warning(
            "A message of Slack makes no sense and is passed over: %s",
            error,
            extra={"action": "message_invalid"},
        )
        return None
