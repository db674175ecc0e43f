"""The Matrix platform: one account, composed of client, sync loop and sender; and the check of its credentials."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import quote

from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    ConnectRefused,
    NotConnected,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, Formatting, LengthUnit
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.platforms.matrix.checkpoint import MatrixCheckpoint, SyncPosition
from holdfast.platforms.matrix.client import MatrixBadToken, MatrixClient, MatrixLogin, log_in
from holdfast.platforms.matrix.events import PLATFORM, MatrixEmptyResponse, MatrixIdentity
from holdfast.platforms.matrix.plugin import MatrixSettings
from holdfast.platforms.matrix.rooms import RoomDirectory, RoomKeys
from holdfast.platforms.matrix.sender import MAX_BODY_BYTES, MatrixSender
from holdfast.platforms.matrix.sync import (
    DEFAULT_TUNING,
    RESPONSE_GRACE,
    MatrixListener,
    SyncTuning,
)
from holdfast.platforms.text.html import fits_matrix

if TYPE_CHECKING:
    from holdfast.platforms.matrix.encryption import EncryptionMachine


# MERGED holdfast.platforms.matrix.platform: The Matrix platform: one account, which hears by syncing and speaks by events.
def capabilities_of(settings: MatrixSettings) -> Capabilities:
    """A server keeps everything, and knows how far we came by the token that we show it; of two
    events of one transaction it makes one."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        idempotent_send=True,
        max_length=20_000,
        length_unit=LengthUnit.BYTES,
        formatting=Formatting.HTML,
        edit=True,
        edit_interval=2.0,
        typing=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        heartbeat_interval=settings.sync_seconds + 2 * RESPONSE_GRACE,
    )


class MatrixPlatform:
    """A door to one account. It owns its line while it is connected, and keeps its device, its
    keys and how far it was heard in its folder."""

    def __init__(
        self,
        context: PluginContext[MatrixSettings],
        *,
        timeout: float = 20.0,
        tuning: SyncTuning = DEFAULT_TUNING,
    ) -> None:
        """`limit`: seconds that an answer may take."""
        self.name = PLATFORM
        self.account = context.account
        self.capabilities = capabilities_of(context.settings)
        self._context = context
        self._tuning = tuning
        self._client = MatrixClient(context.settings.homeserver, timeout=timeout)
        self._login = MatrixLogin(
            self._client,
            account=context.account,
            settings=context.settings,
            token=context.secrets.get("token"),
            password=context.secrets.get("password"),
            path=context.folder / "login.json",
        )
        self._sender: MatrixSender | None = None  # while there is a line

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        opening = self._context
        async with self._client.open(lambda: intake.report_alive(self.name, self.account)):
            me = await self._authenticate()
            library = await asyncio.to_thread(_import_encryption)
            made = library(
                me,
                folder=opening.folder,
                encryption=opening.settings.encryption,
                new_id=opening.new_id,
            )
            async with made.open() as machine, self._run_listener(me, machine, intake):
                yield

    @asynccontextmanager
    async def _run_listener(
        self, identity: MatrixIdentity, encryption: "EncryptionMachine", intake: Intake
    ) -> AsyncIterator[None]:
        rooms = RoomDirectory(self._client, encryption, user_id=identity.user_id)
        keys = RoomKeys(self._client, encryption, rooms)
        record = await self._load_checkpoint(identity)
        hearing = MatrixListener(
            self._client,
            encryption,
            rooms,
            keys,
            record,
            user_id=identity.user_id,
            context=self._context,
            intake=intake,
            tuning=self._tuning,
        )
        place = await self._prepare(hearing)
        async with asyncio.TaskGroup() as tasks:
            work = self._listen(hearing, place, intake=intake, tasks=tasks)
            listening = tasks.create_task(work, name="sync")
            self._sender = MatrixSender(
                self._client,
                rooms,
                keys,
                user_id=identity.user_id,
                new_id=self._context.new_id,
                room_of=record.room_of,
            )
            try:
                yield
            finally:
                self._sender = None
                listening.cancel()
                await hearing.stop()
                # A task that is cancelled in the instant in which its line breaks may go on in
                # spite of it; with nobody to ask, it does not get far.
                await self._client.close()

    def fits(self, text: str) -> bool:
        return fits_matrix(text, limit=MAX_BODY_BYTES)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._connected_sender.send(outbound)

    async def edit(self, edit: MessageEdit) -> None:
        await self._connected_sender.edit(edit)

    async def show_typing(self, address: Address) -> None:
        await self._connected_sender.show_typing(address)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._connected_sender.react(address, message_id, emoji)

    async def probe(self) -> None:
        try:
            await self._client.whoami()
        except MatrixBadToken as error:
            raise self._to_connect_error(error) from error

    @property
    def _connected_sender(self) -> MatrixSender:
        if self._sender is None:
            raise NotConnected("the account is not connected to its homeserver; nothing was sent")
        return self._sender

    async def _authenticate(self) -> MatrixIdentity:
        try:
            return await self._login.authenticate()
        except Throttled:
            raise
        except SendError as error:
            raise AccountDisconnected(str(error)) from error

    async def _prepare(self, listener: MatrixListener) -> SyncPosition:
        try:
            return await listener.prepare()
        except SendError as error:
            raise self._to_connect_error(error) from error

    async def _listen(
        self,
        listener: MatrixListener,
        position: SyncPosition,
        *,
        intake: Intake,
        tasks: asyncio.TaskGroup,
    ) -> None:
        """Until the line breaks, which is told to whoever mends lines."""
        try:
            await listener.run(position, tasks)
        except SendError as error:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))

    async def _load_checkpoint(self, identity: MatrixIdentity) -> MatrixCheckpoint:
        """Of this very account: another one under the same name has other rooms."""
        return await MatrixCheckpoint.load(
            self._context.folder / f"{quote(identity.user_id, safe='')}.json"
        )

    def _to_connect_error(self, error: SendError) -> ConnectError:
        """What a broken line means for the account. With a password, a new token is to be had by
        connecting again."""
        if isinstance(error, MatrixBadToken) and not self._login.uses_password:
            return self._login.bad_token_error(error)
        return AccountDisconnected(str(error))


def _import_encryption() -> "type[EncryptionMachine]":
    """In a thread: the import takes half a second, and the loop has others to serve."""
    try:
        from holdfast.platforms.matrix.encryption import EncryptionMachine
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            f"the library that speaks Matrix is not installed ({error})",
            remedy="pip install 'holdfast[matrix]', then restart the gateway",
        ) from error
    return EncryptionMachine


# MERGED holdfast.platforms.matrix.check: Asking a homeserver whose credentials those are.
_CHECK_TIMEOUT = 20.0  # seconds that an answer may take


async def check_account(context: PluginContext[MatrixSettings]) -> AccountIdentity:
    """With a password, a device is made and taken away again. Raises a `ConnectError` or a
    `SendError`."""
    api = MatrixClient(context.settings.homeserver, timeout=_CHECK_TIMEOUT)
    async with api.open(lambda: None):
        if (token := context.secrets.get("token")) is not None:
            api.set_token(token.reveal())
            try:
                name = (await api.whoami()).user_id
            except MatrixBadToken as error:
                raise ConnectRefused(
                    str(error), remedy="docs/matrix.md says how to get one"
                ) from error
        else:
            name = await _try_password(api, context)
    return AccountIdentity(name=name, chat_link=f"https://matrix.to/#/{name}")


async def _try_password(client: MatrixClient, context: PluginContext[MatrixSettings]) -> str:
    user, password = context.settings.user, context.secrets["password"]
    try:
        given = await log_in(client, user, password, device_name="Holdfast, trying its password")
    except (SendRejected, MatrixBadToken) as error:
        raise ConnectRefused(str(error), remedy="look at the name and the password") from error
    client.set_token(given.access_token)
    await client.call_idempotent("POST", "/logout", MatrixEmptyResponse, body={})
    return given.user_id
