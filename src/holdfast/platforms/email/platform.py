"""The e-mail platform: one mailbox, read over IMAP and answered over SMTP, and its check.

The mail libraries are imported when a connection is opened, in a thread, and not before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.core.errors import ConnectError, ConnectRefused, NotConnected
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, Formatting
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.text.translation import N_
from holdfast.platforms.email.plugin import EmailSettings, SentCopies
from holdfast.platforms.email.state import LoopLimiter, PoisonMails

if TYPE_CHECKING:
    from holdfast.platforms.email.connection import EmailConnection
    from holdfast.platforms.email.receiver import EmailReceiver

    class OpenConnection(Protocol):
        def __call__(
            self,
            plugin_context: PluginContext[EmailSettings],
            on_response: Callable[[], None],
            *,
            save_tokens: bool = True,
        ) -> AbstractAsyncContextManager[EmailConnection]: ...


_MAX_LENGTH = 100_000  # characters: a mail has no maximum length, but readers have


def capabilities_of(settings: EmailSettings) -> Capabilities:
    """Mail stays in its folder until it is processed. Whether deliveries can be looked up is known
    once connected."""
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
    """One mailbox. Owns its loop limiter and poison mails, and its connection while connected. The
    checkpoint and the threads are files in `PluginContext.folder`."""

    def __init__(self, context: PluginContext[EmailSettings]) -> None:
        self.name = "email"
        self.account = context.account
        self.capabilities = capabilities_of(context.settings)
        self._context = context
        # Both count across connections.
        self._limiter = LoopLimiter(hourly_limit=context.settings.hourly_limit)
        self._poison_mails = PoisonMails()
        self._connection: EmailConnection | None = None
        self._on_lost: Callable[[ConnectError], None] = lambda _: None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def report_alive() -> None:
            intake.report_alive(self.name, self.account)
            if self._connection is not None:
                self._connection.activity_seen()

        def report_lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        open_connection = await asyncio.to_thread(
            _import_open_connection,
            N_("Run pip install 'holdfast[email]', then restart the gateway."),
        )
        async with open_connection(self._context, report_alive) as connection:
            receiver, uids = await connection.start_receiver(
                intake, self._limiter, self._poison_mails
            )
            self.capabilities = msgspec.structs.replace(
                self.capabilities, lookup=connection.can_look_up
            )
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(_listen(connection, receiver, uids, report_lost))
                self._connection, self._on_lost = connection, report_lost
                try:
                    yield
                finally:
                    self._connection = None
                    listening.cancel()

    async def send(self, outbound: Outbound) -> Receipt:
        connection = self._active_connection()
        try:
            return await connection.send(outbound)
        except NotConnected as error:
            if (refused := connection.login_refusal(error)) is not None:
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
    """Runs the receiver until the connection is lost, and reports that."""
    try:
        await receiver.run(uids)
    except ConnectError as error:
        connection.connection_lost(error)
        on_lost(error)


def _import_open_connection(remedy: str) -> "OpenConnection":
    """Runs in a thread: the import takes a while."""
    try:
        from holdfast.platforms.email.connection import (  # noqa: PLC0415 - imports mail libraries
            open_connection,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            "the mail libraries are not installed ({error})", error=error, remedy=remedy
        ) from error
    return open_connection


async def check_account(context: PluginContext[EmailSettings]) -> AccountIdentity:
    """Logs in to both mail servers. Raises a `ConnectError` that says which one refused."""
    open_connection = await asyncio.to_thread(
        _import_open_connection, N_("Run pip install 'holdfast[email]'.")
    )
    async with open_connection(context, lambda: None, save_tokens=False):
        address = context.settings.address
    return AccountIdentity(name=address, chat_link=f"mailto:{address}")
