"""Finding: whether a delivery has arrived, asked of the history of its chat."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.platforms.slack.api import WebApi
from holdfast.platforms.slack.marks import carries
from holdfast.platforms.slack.wire import History

# Without these, there is a kind of chat whose history the app is not given.

_SETTLED = 2.0  # seconds after which what Slack was given shows in the history, or never will
_PAGES = 10
_ON_A_PAGE = 200


class Finding:
    """Keeps nothing."""

    def __init__(
        self, api: WebApi, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._api = api
        self._sleep = sleep

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        """Looks through the last two thousand messages there. What was sent before so many others
        is taken for lost, and sent again."""
        await self._sleep(_SETTLED)
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._page(address, cursor)
            for message in page.messages:
                if carries(message, delivery_id):
                    return Receipt(platform_message_id=message.ts)
            cursor = page.response_metadata.next_cursor if page.response_metadata else None
            if not cursor:
                return None
        return None

    async def _page(self, address: Address, cursor: str | None) -> History:
        """What is said in a thread is not in the history of its chat."""
        thread = address.thread_id
        return await self._api.ask(
            "conversations.replies" if thread else "conversations.history",
            History,
            channel=address.chat_id,
            ts=thread,
            cursor=cursor,
            limit=_ON_A_PAGE,
            include_all_metadata=True,
        )
