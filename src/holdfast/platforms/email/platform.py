"""The e-mail platform: one mailbox, listened to over IMAP and answered over SMTP."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import ConnectError, ConnectRefused, NotConnected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, Formatting
from holdfast.core.ports.door import Opening
from holdfast.core.ports.protocols import Intake
from holdfast.platforms.email.broken import Broken
from holdfast.platforms.email.guard import Guard
from holdfast.platforms.email.plugin import Copies, EmailSettings

if TYPE_CHECKING:  # the libraries are imported when a line is opened, and not before
    from holdfast.platforms.email.connection import Session
    from holdfast.platforms.email.receiving import Receiving

    Begin = Callable[
        [Opening[EmailSettings], Callable[[], None]], AbstractAsyncContextManager[Session]
    ]

_LONGEST = 100_000  # characters: a mail has no greatest length, and a reader has


def capabilities_of(settings: EmailSettings) -> Capabilities:
    """Mail stays in its folder, and is taken from where it was left. Whether the server can be
    asked for what was sent is known once connected."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=_LONGEST,
        formatting=Formatting.HTML,
        lookup=settings.copies is Copies.SERVER,
        threads=True,
        attachments_in=True,
        attachments_out=True,
        busy_notices=settings.busy_notices,
        alive_within=settings.idle_seconds + 90.0,
    )


class EmailPlatform:
    """A door to one mailbox. It owns its counts, and its session while it is connected; how far
    it has read and what its threads are called is kept in `Opening.folder`."""

    def __init__(self, opening: Opening[EmailSettings]) -> None:
        self.name = "email"
        self.account = opening.account
        self.capabilities = capabilities_of(opening.settings)
        self._opening = opening
        # What is counted over one line after the other: neither ends with a line.
        self._guard = Guard(hourly=opening.settings.hourly)
        self._broken = Broken()
        self._session: Session | None = None
        self._lost: Callable[[ConnectError], None] = lambda _: None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def alive() -> None:
            intake.proven(self.name, self.account)
            if self._session is not None:
                self._session.heard()

        def lost(error: ConnectError) -> None:
            intake.lost(self.name, self.account, error)

        begin = await asyncio.to_thread(_library)
        async with begin(self._opening, alive) as session:
            receiving, waiting = await session.receiving(intake, self._guard, self._broken)
            self.capabilities = msgspec.structs.replace(
                self.capabilities, lookup=session.settles_doubt
            )
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(_listen(session, receiving, waiting, lost))
                self._session, self._lost = session, lost
                try:
                    yield
                finally:
                    self._session = None
                    listening.cancel()

    async def send(self, outbound: Outbound) -> Receipt:
        session = self._connected()
        try:
            return await session.send(outbound)
        except NotConnected as error:
            if (refused := session.refusal(error)) is not None:
                self._lost(refused)
            raise

    async def find(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._connected().find(delivery_id, address)

    async def probe(self) -> None:
        await self._connected().probe()

    def _connected(self) -> "Session":
        if self._session is None:
            raise NotConnected("the mail servers are not connected")
        return self._session


async def _listen(
    session: "Session",
    receiving: "Receiving",
    waiting: list[int],
    lost: Callable[[ConnectError], None],
) -> None:
    """Until the line breaks, which is told to whoever mends lines."""
    try:
        await receiving.run(waiting)
    except ConnectError as error:
        session.lost(error)
        lost(error)


def _library() -> "Begin":
    """In a thread: the import takes a while, and the loop has others to serve."""
    try:
        from holdfast.platforms.email.connection import begun
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the libraries that speak with mail servers are not installed ({error})",
            remedy="pip install 'holdfast[email]', then restart the gateway",
        ) from error
    return begun
