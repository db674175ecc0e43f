"""Finding: whether a delivery has arrived, asked of the history of its chat."""

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Receipt
from holdfast.platforms.slack.api import SlackClient
from holdfast.platforms.slack.marks import carries_delivery
from holdfast.platforms.slack.wire import SlackHistoryPage

# Without these, there is a kind of chat whose history the app is not given.

_SETTLE_SECONDS = (
    2.0  # seconds after which what Slack was given shows in the history, or never will
)
_MAX_PAGES = 10
_PAGE_SIZE = 200


class SlackDeliveryLookup:
    """Keeps nothing."""

    def __init__(
        self, client: SlackClient, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._client = client
        self._sleep = sleep

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        """Looks through the last two thousand messages there. What was sent before so many others
        is taken for lost, and sent again."""
        await self._sleep(_SETTLE_SECONDS)
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._fetch_page(address, cursor)
            for message in page.messages:
                if carries_delivery(message, delivery_id):
                    return Receipt(platform_message_id=message.ts)
            cursor = page.response_metadata.next_cursor if page.response_metadata else None
            if not cursor:
                return None
        return None

    async def _fetch_page(self, address: Address, cursor: str | None) -> SlackHistoryPage:
        """What is said in a thread is not in the history of its chat."""
        thread = address.thread_id
        return await self._client.call_form(
            "conversations.replies" if thread else "conversations.history",
            SlackHistoryPage,
            channel=address.chat_id,
            ts=thread,
            cursor=cursor,
            limit=_PAGE_SIZE,
            include_all_metadata=True,
        )
