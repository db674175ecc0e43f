"""The Matrix platform: one account, composed of client, sync loop and sender; and the check of its
credentials."""

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
from holdfast.platforms.matrix.rooms import KeyUploadLog, RoomDirectory, RoomKeys
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

_CHECK_TIMEOUT = 20.0  # seconds for each call of the credentials check


def capabilities_of(settings: MatrixSettings) -> Capabilities:
    """The homeserver stores all messages, and learns from the sync token how far we have read.
    Sends are idempotent by their transaction id."""
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
    """One account. Owns its connection while it is connected, and in its folder the files of its
    login, its keys and its checkpoint."""

    def __init__(
        self,
        context: PluginContext[MatrixSettings],
        *,
        timeout: float = 20.0,
        tuning: SyncTuning = DEFAULT_TUNING,
    ) -> None:
        """`timeout`: seconds for each API call."""
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
        self._upload_log = KeyUploadLog(context.account)
        self._sender: MatrixSender | None = None  # while connected

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        context = self._context
        async with self._client.open(lambda: intake.report_alive(self.name, self.account)):
            identity = await self._authenticate()
            machine_type = await asyncio.to_thread(_import_encryption)
            machine = machine_type(
                identity,
                folder=context.folder,
                encryption=context.settings.encryption,
                new_id=context.new_id,
            )
            async with machine.open(), self._run_listener(identity, machine, intake):
                yield

    @asynccontextmanager
    async def _run_listener(
        self, identity: MatrixIdentity, encryption: "EncryptionMachine", intake: Intake
    ) -> AsyncIterator[None]:
        rooms = RoomDirectory(self._client, encryption, user_id=identity.user_id)
        room_keys = RoomKeys(self._client, encryption, rooms, upload_log=self._upload_log)
        checkpoint = await self._load_checkpoint(identity)
        listener = MatrixListener(
            self._client,
            encryption,
            rooms,
            room_keys,
            checkpoint,
            user_id=identity.user_id,
            context=self._context,
            intake=intake,
            tuning=self._tuning,
        )
        position = await self._prepare(listener)
        async with asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(
                self._listen(listener, position, intake=intake, tasks=tasks), name="sync"
            )
            self._sender = MatrixSender(
                self._client,
                rooms,
                room_keys,
                user_id=identity.user_id,
                new_id=self._context.new_id,
                room_of=checkpoint.room_of,
            )
            try:
                yield
            finally:
                self._sender = None
                listening.cancel()
                await listener.stop()
                # A task that is cancelled at the moment its connection is lost may continue.
                # Without a client, its next request fails.
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
            raise AccountDisconnected("{error}", error=error) from error

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
        """Runs until the connection is lost, which is reported to intake."""
        try:
            await listener.run(position, tasks)
        except SendError as error:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))

    async def _load_checkpoint(self, identity: MatrixIdentity) -> MatrixCheckpoint:
        """The file is named by the user id: another user under the same account name has other
        rooms."""
        return await MatrixCheckpoint.load(
            self._context.folder / f"{quote(identity.user_id, safe='')}.json"
        )

    def _to_connect_error(self, error: SendError) -> ConnectError:
        """The state of the account after a failed call. A bad token is refused only if there is no
        password: with one, the next connect gets a new token."""
        if isinstance(error, MatrixBadToken) and not self._login.uses_password:
            return self._login.bad_token_error(error)
        return AccountDisconnected("{error}", error=error)


def _import_encryption() -> "type[EncryptionMachine]":
    """Call it in a thread: the import takes half a second, which would block the event loop."""
    try:
        from holdfast.platforms.matrix.encryption import (  # noqa: PLC0415 - an extra, and slow
            EncryptionMachine,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            "the library matrix-nio is not installed ({error})",
            error=error,
            remedy="Run pip install 'holdfast[matrix]', then restart the gateway.",
        ) from error
    return EncryptionMachine


async def check_account(context: PluginContext[MatrixSettings]) -> AccountIdentity:
    """With a password, this logs in as a new device and logs out again. Raises a `ConnectError` or
    a `SendError`."""
    client = MatrixClient(context.settings.homeserver, timeout=_CHECK_TIMEOUT)
    async with client.open(lambda: None):
        if (token := context.secrets.get("token")) is not None:
            client.set_token(token.reveal())
            try:
                user_id = (await client.whoami()).user_id
            except MatrixBadToken as error:
                raise ConnectRefused(
                    "{error}", error=error, remedy="docs/matrix.md explains how to get one."
                ) from error
        else:
            user_id = await _try_password(client, context)
    return AccountIdentity(name=user_id, chat_link=f"https://matrix.to/#/{user_id}")


async def _try_password(client: MatrixClient, context: PluginContext[MatrixSettings]) -> str:
    user, password = context.settings.user, context.secrets["password"]
    try:
        login = await log_in(client, user, password, device_name="Holdfast (password check)")
    except (SendRejected, MatrixBadToken) as error:
        raise ConnectRefused(
            "{error}", error=error, remedy="Check the user name and the password."
        ) from error
    client.set_token(login.access_token)
    await client.call_idempotent("POST", "/logout", MatrixEmptyResponse, body={})
    return login.user_id
