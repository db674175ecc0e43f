"""The e-mail platform: one mailbox, received over IMAP and answered over SMTP; and the check of its credentials."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.errors import ConnectError, ConnectRefused, NotConnected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, Formatting
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.platforms.email.plugin import EmailSettings, SentCopies
from holdfast.platforms.email.state import LoopLimiter, PoisonMails

# MERGED holdfast.platforms.email.platform: The e-mail platform: one mailbox, listened to over IMAP and answered over SMTP.
if TYPE_CHECKING:  # the libraries are imported when a line is opened, and not before
    from holdfast.platforms.email.connection import EmailConnection
    from holdfast.platforms.email.receiver import EmailReceiver

    OpenConnection = Callable[
        [PluginContext[EmailSettings], Callable[[], None]],
        AbstractAsyncContextManager[EmailConnection],
    ]

_MAX_LENGTH = 100_000  # characters: a mail has no greatest length, and a reader has


def capabilities_of(settings: EmailSettings) -> Capabilities:
    """Mail stays in its folder, and is taken from where it was left. Whether the server can be
    asked for what was sent is known once connected."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=_MAX_LENGTH,
        formatting=Formatting.HTML,
        lookup=settings.copies is SentCopies.SERVER,
        threads=True,
        attachments_in=True,
        attachments_out=True,
        busy_notices=settings.busy_notices,
        heartbeat_interval=settings.idle_seconds + 90.0,
    )


class EmailPlatform:
    """A door to one mailbox. It owns its counts, and its session while it is connected; how far
    it has read and what its threads are called is kept in `Opening.folder`."""

    def __init__(self, context: PluginContext[EmailSettings]) -> None:
        self.name = "email"
        self.account = context.account
        self.capabilities = capabilities_of(context.settings)
        self._context = context
        # What is counted over one line after the other: neither ends with a line.
        self._limiter = LoopLimiter(hourly_limit=context.settings.hourly_limit)
        self._poison_mails = PoisonMails()
        self._connection: EmailConnection | None = None
        self._on_lost: Callable[[ConnectError], None] = lambda _: None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def alive() -> None:
            intake.report_alive(self.name, self.account)
            if self._connection is not None:
                self._connection.activity_seen()

        def lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        begin = await asyncio.to_thread(_import_open_connection)
        async with begin(self._context, alive) as session:
            receiving, waiting = await session.start_receiver(
                intake, self._limiter, self._poison_mails
            )
            self.capabilities = msgspec.structs.replace(
                self.capabilities, lookup=session.can_look_up
            )
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(_listen(session, receiving, waiting, lost))
                self._connection, self._on_lost = session, lost
                try:
                    yield
                finally:
                    self._connection = None
                    listening.cancel()

    async def send(self, outbound: Outbound) -> Receipt:
        session = self._active_connection()
        try:
            return await session.send(outbound)
        except NotConnected as error:
            if (refused := session.login_refusal(error)) is not None:
                self._on_lost(refused)
            raise

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._active_connection().find_delivery(delivery_id, address)

    async def probe(self) -> None:
        await self._active_connection().probe()

    def _active_connection(self) -> "EmailConnection":
        if self._connection is None:
            raise NotConnected("the mail servers are not connected")
        return self._connection


async def _listen(
    connection: "EmailConnection",
    receiver: "EmailReceiver",
    uids: list[int],
    on_lost: Callable[[ConnectError], None],
) -> None:
    """Until the line breaks, which is told to whoever mends lines."""
    try:
        await receiver.run(uids)
    except ConnectError as error:
        connection.connection_lost(error)
        on_lost(error)


def _import_open_connection() -> "OpenConnection":
    """In a thread: the import takes a while, and the loop has others to serve."""
    try:
        from holdfast.platforms.email.connection import open_connection
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the libraries that speak with mail servers are not installed ({error})",
            remedy="pip install 'holdfast[email]', then restart the gateway",
        ) from error
    return open_connection


# MERGED holdfast.platforms.email.check: Asking both mail servers whether they let us in.
async def check_account(context: PluginContext[EmailSettings]) -> AccountIdentity:
    """Raises the `ConnectError` that says what is wrong with which."""
    try:
        from holdfast.platforms.email.connection import open_connection
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the libraries that speak with mail servers are not installed ({error})",
            remedy="pip install 'holdfast[email]'",
        ) from error
    async with open_connection(context, lambda: None, save_tokens=False):
        address = context.settings.address
    return AccountIdentity(name=address, chat_link=f"mailto:{address}")
