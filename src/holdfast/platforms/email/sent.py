"""The folder of sent mail: whether a delivery is there, and copies of what we have sent."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.core.errors import ConnectError, NotConnected
from holdfast.platforms.email.automatic import DELIVERY_HEADER
from holdfast.platforms.email.composing import ComposedMail
from holdfast.platforms.email.mailbox import ImapMailbox
from holdfast.platforms.email.plugin import SentCopies

log = logging.getLogger(__name__)

_SETTLE_SECONDS = (
    3.0  # seconds after which what a server was given shows in its folder, or never will
)
_GMAIL_CAPABILITY = (
    "X-GM-EXT-1"  # https://developers.google.com/workspace/gmail/imap/imap-extensions
)

OpenMailbox = Callable[[], AbstractAsyncContextManager[ImapMailbox]]


class SentFolder:
    """Knows the folder, and who fills it. Each look is a connection of its own: the line that is
    listened to has another folder open."""

    def __init__(
        self,
        open_mailbox: OpenMailbox,
        *,
        folder: str | None,
        copies: SentCopies,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._open_mailbox = open_mailbox
        self._folder = folder
        self._copies = copies if folder is not None else SentCopies.NONE
        self._sleep = sleep

    @classmethod
    async def detect(
        cls, mailbox: ImapMailbox, open_mailbox: OpenMailbox, *, copies: SentCopies
    ) -> "SentFolder":
        if copies is SentCopies.AUTO:
            copies = (
                SentCopies.SERVER if _GMAIL_CAPABILITY in mailbox.capabilities else SentCopies.OURS
            )
        folder = None if copies is SentCopies.NONE else await mailbox.sent_folder()
        if folder is None and copies is SentCopies.SERVER:
            log.warning(
                "The mail server names no folder of sent mail: whether a mail without a receipt "
                "has arrived cannot be looked up, and it may come twice.",
                extra={"action": "sent_folder_missing"},
            )
        return cls(open_mailbox, folder=folder, copies=copies)

    @property
    def proves_absence(self) -> bool:
        """Whether what is not there was not sent: only where the server itself puts it there. A
        copy of ours may be missing because we were killed before we could make it."""
        return self._copies is SentCopies.SERVER

    @property
    def stores_copies(self) -> bool:
        return self._copies is SentCopies.OURS

    async def contains(self, message_id: str, delivery_id: str) -> bool:
        """Raises `NotConnected` where that cannot be known now. By the mark as well: there are
        servers that give a mail another name than its own."""
        if self.proves_absence:
            await self._sleep(_SETTLE_SECONDS)
        try:
            async with self._open_folder() as box:
                return await box.has_header("Message-ID", message_id) or await box.has_header(
                    DELIVERY_HEADER, delivery_id
                )
        except ConnectError as error:
            raise NotConnected(str(error)) from error

    async def store_copy(self, mail: ComposedMail) -> None:
        """A copy for people to see. The mail itself is sent: what goes wrong here is only told."""
        if not self.stores_copies or self._folder is None:
            return
        try:
            async with self._open_mailbox() as box:
                await box.append(self._folder, mail.source)
        except ConnectError as error:
            log.warning(
                "A mail was sent, and its copy not kept: %s",
                error,
                extra={"action": "sent_copy_failed"},
            )

    @asynccontextmanager
    async def _open_folder(self) -> AsyncIterator[ImapMailbox]:
        assert self._folder is not None, "there is nothing to look for without one"
        async with self._open_mailbox() as box:
            await box.select(self._folder)
            yield box
