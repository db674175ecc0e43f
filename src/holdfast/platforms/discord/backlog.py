"""The backlog: what was said in a channel while nobody listened, oldest first."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from holdfast.core.deep_json import decode
from holdfast.core.errors import NotConnected, OutcomeUnknown, Throttled
from holdfast.platforms.discord.client import RestApi
from holdfast.platforms.discord.wire import Message, Numbered

log = logging.getLogger(__name__)

_PAGE = 100  # messages, the most that are given at once


class Backlog:
    """Owns the turn in which channels are asked for: one after the other, so that a bot of many
    channels does not use up at its start what Discord grants it for its answers."""

    def __init__(
        self, api: RestApi, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api = api
        self._sleep = sleep
        self._turn = asyncio.Lock()

    async def since(self, channel_id: str, after: int) -> AsyncIterator[Message]:
        """What makes no sense is passed over: asked for again, it would hold up the rest for ever.
        Raises `NotConnected` where there is no answer now, and `Refused` where the bot may not
        read the channel, or it is gone."""
        while True:
            page = await self._page(channel_id, after)
            for number in sorted(page):
                if (message := _read(page[number])) is not None:
                    yield message
                after = number
            if len(page) < _PAGE:
                return

    async def _page(self, channel_id: str, after: int) -> dict[int, msgspec.Raw]:
        """By their numbers: those that follow, though the newest of them stands first.

        https://discord.com/developers/docs/resources/message#get-channel-messages
        """
        query = {"after": str(after), "limit": str(_PAGE)}
        async with self._turn:
            while True:
                try:
                    path = f"/channels/{channel_id}/messages"
                    page = await self._api.call("GET", path, list[msgspec.Raw], query=query)
                    return {int(decode(raw, type=Numbered).id): raw for raw in page}
                except Throttled as error:
                    await self._sleep(error.retry_after)
                except OutcomeUnknown as error:  # asking again does no harm
                    raise NotConnected(str(error)) from error


def _read(raw: msgspec.Raw) -> Message | None:
    try:
        return decode(raw, type=Message)
    except msgspec.MsgspecError as error:
        log.warning(
            "A message of Discord makes no sense and is passed over: %s",
            error,
            extra={"action": "message_unread"},
        )
        return None
