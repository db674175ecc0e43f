"""The backlog: what was said in Slack while nobody listened, asked of the history of each chat.

Slack brings an event again for a few minutes, and then no more; but it keeps what was said.
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
    Refused,
    StoreError,
    Throttled,
)
from holdfast.platforms.pauses import growing
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.checkpoint import Record, seconds
from holdfast.platforms.slack.refusals import Unreadable
from holdfast.platforms.slack.taking import Taking
from holdfast.platforms.slack.wire import Following, Message

log = logging.getLogger(__name__)

_ON_A_PAGE = 200
_PAGES = 50  # of one chat: more than anybody reads who comes back


class Page(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/conversations.history, each message as it comes."""

    messages: tuple[dict[str, Any], ...] = ()
    response_metadata: Following | None = None


class Backlog:
    """Owns nothing: how far was looked is the record's to know."""

    def __init__(
        self,
        api: WebApi,
        record: Record,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._record = record
        self._sleep = sleep

    async def take(self, taking: Taking, *, now: float) -> None:
        """Hand over what was missed, chat by chat and thread by thread, each in its order. What was
        heard before is known to intake, and counts once. After a restart nobody has to be asked.

        Raises `NotConnected` where Slack gives no answer: nothing is lost by that, the mark stays.
        """
        since = newest = self._record.until
        if self._record.left_just_now(now):
            self._record.looked_through()
            return
        chats = self._record.chats
        for chat, kind in chats.items():
            newest = max(newest, await self._take_from(taking, chat, kind, since))
        for chat, thread in self._record.threads:
            kind = chats.get(chat, "")
            newest = max(newest, await self._take_from(taking, chat, kind, since, thread=thread))
        self._record.looked_through(newest)

    async def _take_from(
        self, taking: Taking, chat: str, kind: str, since: float, *, thread: str | None = None
    ) -> float:
        """When the last of it was said."""
        missed: list[Message] = []
        try:
            async for raw in self._said(chat, since, thread):
                if (message := _read(raw, chat, kind)) and seconds(message.ts) > since:
                    missed.append(message)
        except Refused as error:  # the app was sent away from there, or may not read it
            log.info(
                "What was said in %s meanwhile is not to be had: %s",
                chat,
                error,
                extra={"action": "history_refused"},
            )
        missed.sort(key=lambda each: seconds(each.ts))
        for message in missed:
            await self._handed_over(taking, message)
        return seconds(missed[-1].ts) if missed else since

    async def _said(
        self, chat: str, since: float, thread: str | None
    ) -> AsyncIterator[dict[str, Any]]:
        """In whatever order: a history begins with its last word, a thread with its first."""
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._page(chat, since, thread, cursor)
            for message in page.messages:
                yield message
            cursor = page.response_metadata.next_cursor if page.response_metadata else None
            if not cursor:
                return
        log.warning(
            "More was said in %s meanwhile than is looked through: its oldest part is passed over.",
            chat,
            extra={"action": "history_long"},
        )

    async def _page(self, chat: str, since: float, thread: str | None, cursor: str | None) -> Page:
        while True:
            try:
                return await self._api.ask(
                    "conversations.replies" if thread else "conversations.history",
                    Page,
                    channel=chat,
                    ts=thread,
                    oldest=f"{since:.6f}",
                    cursor=cursor,
                    limit=_ON_A_PAGE,
                )
            except Throttled as error:
                await self._sleep(error.retry_after)
            except Unreadable as error:  # for good: what stands beside it there goes with it
                raise Refused(str(error)) from error
            except OutcomeUnknown as error:  # asking again does no harm
                raise NotConnected(str(error)) from error

    async def _handed_over(self, taking: Taking, message: Message) -> None:
        for pause in growing():
            try:
                await taking.take_said(message)
                return
            except (StoreError, IntakeClosed, NotConnected) as error:
                log.warning(
                    "What was said in Slack meanwhile is not taken: %s",
                    error,
                    extra={"action": "feed_paused"},
                )
                await self._sleep(pause)


def _read(raw: dict[str, Any], chat: str, kind: str) -> Message | None:
    """A history does not say of each message where it stands."""
    try:
        return msgspec.convert({**raw, "channel": chat, "channel_type": kind}, Message)
    except msgspec.ValidationError as error:
        log.warning(
            "A message of Slack makes no sense and is passed over: %s",
            error,
            extra={"action": "message_unread"},
        )
        return None
