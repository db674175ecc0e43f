"""The web platform: chats of the page and the command line, which talk to the gateway over
`/api/v1`."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.errors import SendRejected
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.messages.source import Source
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.platform import Intake

NAME = "web"


class WebPlatform:
    """Holds nothing. Its replies are fetched, so a committed one counts as sent. Its messages come
    from the API, which has checked the token."""

    name = NAME
    account = "default"
    capabilities = Capabilities(backlog=Backlog.NONE, fetchable=True)

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise SendRejected("replies of the page are fetched, never sent")


def web_source(chat_id: str) -> Source:
    """The source of a chat of the page: its only user is the owner of the gateway."""
    return Source(platform=NAME, chat_id=chat_id, user_id="owner")
