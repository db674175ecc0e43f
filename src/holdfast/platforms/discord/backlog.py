"""The backlog: what was said in a channel while nobody listened, oldest first."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from holdfast.core.errors import NotConnected, OutcomeUnknown, Throttled
from holdfast.platforms.discord.api import RestApi
from holdfast.platforms.discord.wire import Message

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
        """Raises `NotConnected` where there is no answer now, and `Refused` where the bot may not
        read the channel, or it is gone."""
        while True:
            page = await self._page(channel_id, after)
            for message in page:
                yield message
                after = int(message.id)
            if len(page) < _PAGE:
                return

    async def _page(self, channel_id: str, after: int) -> list[Message]:
        """https://discord.com/developers/docs/resources/message#get-channel-messages: those that
        follow, though the newest of them stands first."""
        query = {"after": str(after), "limit": str(_PAGE)}
        async with self._turn:
            while True:
                try:
                    path = f"/channels/{channel_id}/messages"
                    page = await self._api.call("GET", path, list[Message], query=query)
                    return sorted(page, key=lambda message: int(message.id))
                except Throttled as error:
                    await self._sleep(error.retry_after)
                except OutcomeUnknown as error:  # asking again does no harm
                    raise NotConnected(str(error)) from error
