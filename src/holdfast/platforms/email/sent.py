"""The folder of sent mail: whether a delivery is there, and copies of what we have sent."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from holdfast.core.errors import ConnectError, NotConnected
from holdfast.platforms.email.automatic import MARK
from holdfast.platforms.email.composing import Composed
from holdfast.platforms.email.mailbox import Mailbox
from holdfast.platforms.email.plugin import Copies

log = logging.getLogger(__name__)

_SETTLED = 3.0  # seconds after which what a server was given shows in its folder, or never will
_GMAIL = "X-GM-EXT-1"  # https://developers.google.com/workspace/gmail/imap/imap-extensions

Open = Callable[[], AbstractAsyncContextManager[Mailbox]]


class Sent:
    """Knows the folder, and who fills it. Each look is a connection of its own: the line that is
    listened to has another folder open."""

    def __init__(
        self,
        open_box: Open,
        *,
        folder: str | None,
        copies: Copies,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._open = open_box
        self._folder = folder
        self._copies = copies if folder is not None else Copies.NONE
        self._sleep = sleep

    @classmethod
    async def of(cls, box: Mailbox, open_box: Open, *, copies: Copies) -> "Sent":
        if copies is Copies.AUTO:
            copies = Copies.SERVER if _GMAIL in box.abilities else Copies.OURS
        folder = None if copies is Copies.NONE else await box.sent_folder()
        if folder is None and copies is Copies.SERVER:
            log.warning(
                "The mail server names no folder of sent mail: whether a mail without a receipt "
                "has arrived cannot be looked up, and it may come twice.",
                extra={"action": "sent_missing"},
            )
        return cls(open_box, folder=folder, copies=copies)

    @property
    def settles_doubt(self) -> bool:
        """Whether what is not there was not sent: only where the server itself puts it there. A
        copy of ours may be missing because we were killed before we could make it."""
        return self._copies is Copies.SERVER

    @property
    def keeps_ours(self) -> bool:
        return self._copies is Copies.OURS

    async def has(self, name: str, delivery_id: str) -> bool:
        """Raises `NotConnected` where that cannot be known now. By the mark as well: there are
        servers that give a mail another name than its own."""
        if self.settles_doubt:
            await self._sleep(_SETTLED)
        try:
            async with self._selected() as box:
                return await box.holds("Message-ID", name) or await box.holds(MARK, delivery_id)
        except ConnectError as error:
            raise NotConnected(str(error)) from error

    async def file(self, mail: Composed) -> None:
        """A copy for people to see. The mail itself is sent: what goes wrong here is only told."""
        if not self.keeps_ours or self._folder is None:
            return
        try:
            async with self._open() as box:
                await box.append(self._folder, mail.source)
        except ConnectError as error:
            log.warning(
                "A mail was sent, and its copy not kept: %s", error, extra={"action": "copy_unkept"}
            )

    @asynccontextmanager
    async def _selected(self) -> AsyncIterator[Mailbox]:
        assert self._folder is not None, "there is nothing to look for without one"
        async with self._open() as box:
            await box.select(self._folder)
            yield box
