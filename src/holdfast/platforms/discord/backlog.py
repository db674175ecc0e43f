"""The backlog: what was said in a channel while nobody listened, oldest first."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from holdfast.core.deep_json import decode_json
from holdfast.core.errors import NotConnected, OutcomeUnknown, Throttled
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.wire import DiscordMessage, DiscordMessageId

log = logging.getLogger(__name__)

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
