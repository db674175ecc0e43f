"""The XMPP platform: one account of a server, connected by being present there."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import ConnectError, ConnectRefused, NotConnected, SendError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.protocols import Clock, IdFactory, Intake
from holdfast.core.secret import Secret
from holdfast.platforms.held import EventBuffer
from holdfast.platforms.text.xmpp import fits
from holdfast.platforms.xmpp.connected import PING_INTERVAL, XmppAccountContext, XmppConnection
from holdfast.platforms.xmpp.marks import ArchiveCheckpoints
from holdfast.platforms.xmpp.plugin import XmppSettings
from holdfast.platforms.xmpp.reading import PLATFORM
from holdfast.platforms.xmpp.recent import RecentRoomMessages
from holdfast.platforms.xmpp.sending import MAX_LENGTH, REPEAT_NOTICE_LENGTH
from holdfast.platforms.xmpp.taking import UnarchivedMessage
from holdfast.platforms.xmpp.trust import make_tls_context
from holdfast.platforms.xmpp.web import open_http_sessions

if TYPE_CHECKING:  # the library is imported when a line is opened, and not before
    from holdfast.platforms.xmpp.line import XmppClient

RESPONSE_TIMEOUT = 20.0  # seconds


def capabilities_of(settings: XmppSettings) -> Capabilities:
    """What the server adds, an archive and a place for files, is known once connected. Each edit
    is a message in archives and on phones, so there are few."""
    return Capabilities(
        backlog=Backlog.HISTORY,
        lookup=True,
        max_length=MAX_LENGTH - REPEAT_NOTICE_LENGTH,
        edit=True,
        edit_interval=3.0,
        group_edit_interval=6.0,
        typing=True,
        reactions=True,
        attachments_in=settings.max_file_mb > 0,
        heartbeat_interval=3 * PING_INTERVAL,
    )


class XmppPlatform:
    """A door to one account. It owns its line while it is connected, and keeps in `folder` how
    far each archive was looked at."""

    def __init__(
        self,
        password: Secret,
        *,
        account: str,
        settings: XmppSettings,
        folder: Path,
        clock: Clock,
        new_id: IdFactory,
        timeout: float = RESPONSE_TIMEOUT,
        settle_seconds: float = 1.0,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._password = password
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._new_id = new_id
        self._timeout = timeout  # seconds for an answer
        self._settle_seconds = (
            settle_seconds  # seconds for a message to be in the archive, if it ever will be
        )
        self._buffers: dict[str, EventBuffer[UnarchivedMessage]] = {}
        self._recent_messages = (
            RecentRoomMessages()
        )  # over all its lines: what is signed may be so on the next
        self._connection: XmppConnection | None = None

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        make = await asyncio.to_thread(
            client_factory, self._settings, account=self.account, timeout=self._timeout
        )
        around = await self._make_context(intake)
        line = make(self._settings, self._password, resource=self._settings.resource)
        line.on_activity = lambda: intake.report_alive(self.name, self.account)
        async with line.open_session(), open_http_sessions() as reached:
            connected = XmppConnection(line, reached, around)
            line.on_message, line.on_presence, line.on_ack = (
                connected.handle_message,
                connected.handle_presence,
                connected.handle_ack,
            )
            line.ended.add_done_callback(lambda over: connected.connection_lost(over.result()))
            try:
                await connected.start()
            except SendError:
                if line.ended.done():  # which says more of why
                    raise line.ended.result() from None
                raise
            self._update_capabilities(connected)
            async with self._run_tasks(connected):
                line.ended.add_done_callback(partial(self._handle_end, around))
                yield

    @asynccontextmanager
    async def _run_tasks(self, connection: XmppConnection) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as tasks:
                working = connection.start_tasks(tasks)
                self._connection = connection
                try:
                    yield
                finally:
                    self._connection = None
                    for task in working:
                        task.cancel()
        finally:
            await connection.stop()

    async def _make_context(self, intake: Intake) -> XmppAccountContext:
        def lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        # Of this very account: another one under the same name has archives of its own.
        name = blake2b(self._settings.jid.lower().encode(), digest_size=8).hexdigest()
        return XmppAccountContext(
            settings=self._settings,
            account=self.account,
            timeout=self._timeout,
            settle_seconds=self._settle_seconds,
            checkpoints=await ArchiveCheckpoints.load(self._folder / f"{name}.json"),
            buffers=self._buffers,
            recent_messages=self._recent_messages,
            intake=intake,
            clock=self._clock,
            new_id=self._new_id,
            on_lost=lost,
        )

    def _handle_end(self, context: XmppAccountContext, ended: asyncio.Future[ConnectError]) -> None:
        if self._connection is not None:  # else we have left by ourselves
            context.on_lost(ended.result())

    def _update_capabilities(self, connection: XmppConnection) -> None:
        archived = connection.has_archive
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            backlog=Backlog.HISTORY if archived else Backlog.NONE,
            lookup=archived,
            attachments_out=connection.sender.uploads is not None,
        )

    def fits(self, text: str) -> bool:
        return fits(text, limit=MAX_LENGTH - REPEAT_NOTICE_LENGTH)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._active_connection.sender.send(outbound)

    async def edit(self, edit: MessageEdit) -> None:
        await self._active_connection.sender.edit(edit)

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._active_connection.find_delivery(delivery_id, address)

    async def show_typing(self, address: Address) -> None:
        self._active_connection.sender.show_typing(address)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        self._active_connection.sender.react(address, message_id, emoji)

    async def probe(self) -> None:
        await self._active_connection.probe()

    @property
    def _active_connection(self) -> XmppConnection:
        if self._connection is None:
            raise NotConnected("the account is not connected to its server; nothing was sent")
        return self._connection


def client_factory(
    settings: XmppSettings, *, account: str, timeout: float = RESPONSE_TIMEOUT
) -> "Callable[..., XmppClient]":
    """In a thread: the import takes a while, and so does reading whom this machine trusts; the
    loop has others to serve."""
    try:
        from holdfast.platforms.xmpp.line import XmppClient  # noqa: PLC0415 - imports slixmpp
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks XMPP is not installed ({error})",
            remedy="pip install 'holdfast[xmpp]', then restart the gateway",
        ) from error
    table = account_table(PLATFORM, account)
    context = make_tls_context(settings, table=table)
    return partial(XmppClient, context=context, timeout=timeout, table=table)
