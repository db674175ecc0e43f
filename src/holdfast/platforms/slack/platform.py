"""The Slack platform: one app of a workspace, composed of client, receiver and sender; and the
check of its credentials."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from holdfast.core.config.settings import account_table
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    ConnectRefused,
    SendError,
    Throttled,
)
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatIdFormat, Formatting
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.slack.backlog import SlackBacklog
from holdfast.platforms.slack.checkpoint import SlackCheckpoint
from holdfast.platforms.slack.client import (
    APPS_PAGE,
    HISTORY_SCOPES,
    REACTIONS_SCOPE,
    WRITE_SCOPE,
    MissingScope,
    SlackBadToken,
    SlackClient,
    missing_scope_error,
    missing_scope_warnings,
)
from holdfast.platforms.slack.events import PLATFORM, SlackIdentity, SlackParser, SocketUrl
from holdfast.platforms.slack.plugin import SlackSettings
from holdfast.platforms.slack.receiver import (
    PING_INTERVAL,
    SlackEventsEndpoint,
    SlackReceiver,
    SlackUsers,
    SocketModeConnection,
)
from holdfast.platforms.slack.sender import REPEAT_NOTICE_LENGTH, SlackSender, find_delivery
from holdfast.platforms.text.slack import MAX_LENGTH, fits

log = logging.getLogger(__name__)

_KEEPALIVE_INTERVAL = 60.0  # seconds between two calls of auth.test, if Slack posts its events
_CHECKPOINT_FILE = "heard.json"


def capabilities_of(settings: SlackSettings) -> Capabilities:
    """Slack accepts about one message per second in a chat, and has no idempotency key. Whether
    deliveries can be looked up depends on the app's scopes, which are known once connected."""
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=MAX_LENGTH - REPEAT_NOTICE_LENGTH,
        formatting=Formatting.MRKDWN,
        edit=True,
        edit_interval=1.5,
        group_edit_interval=3.0,
        buttons=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        chat_id_format=ChatIdFormat(pattern=r"[CDGUW][A-Z0-9]{2,30}", example="C0123ABCDEF"),
        heartbeat_interval=3 * PING_INTERVAL if settings.app_token else 2 * _KEEPALIVE_INTERVAL,
    )


class SlackPlatform:
    """One app of a workspace. Owns its connection while it is connected, and its checkpoint file in
    `folder`."""

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        *,
        account: str,
        settings: SlackSettings,
        folder: Path,
        clock: Clock,
        timeout: float = 20.0,
    ) -> None:
        """`timeout`: seconds for each Web API call."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._app_token = secrets.get("app_token")
        self._client = SlackClient(secrets["token"], base_url=settings.base_url, timeout=timeout)
        self._sender = SlackSender(self._client)
        self._events_endpoint = SlackEventsEndpoint(
            secrets.get("signing_secret"), account=account, clock=clock
        )

    def routes(self) -> Sequence[web.RouteDef]:
        return self._events_endpoint.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def on_activity() -> None:
            intake.report_alive(self.name, self.account)

        def on_bad_token(error: SlackBadToken) -> None:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))

        async with self._client.open(on_activity, on_bad_token):
            checkpoint = await SlackCheckpoint.load(
                self._folder / _CHECKPOINT_FILE, now=self._clock.now()
            )
            backlog = SlackBacklog(self._client, checkpoint)
            receiver = await self._make_receiver(intake, checkpoint, backlog)
            receive = (
                self._receive_by_socket if self._app_token is not None else self._receive_by_http
            )
            try:
                async with receive(receiver, backlog, intake, on_activity):
                    yield
            finally:
                await checkpoint.save_progress()

    def fits(self, text: str) -> bool:
        return fits(text, limit=MAX_LENGTH - REPEAT_NOTICE_LENGTH)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._sender.send(outbound)

    async def edit(self, edit: MessageEdit) -> None:
        await self._sender.edit(edit)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._sender.react(address, message_id, emoji)

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await find_delivery(self._client, delivery_id, address)

    async def probe(self) -> None:
        try:
            await self._client.call_form("auth.test", SlackIdentity)
        except SlackBadToken as error:
            raise self._to_connect_error(error) from error
        self._update_capabilities()

    async def _make_receiver(
        self, intake: Intake, checkpoint: SlackCheckpoint, backlog: SlackBacklog
    ) -> SlackReceiver:
        """Asks Slack for our identity and scopes, and makes the receiver for them."""
        try:
            identity = await self._client.call_form("auth.test", SlackIdentity)
        except Throttled:
            raise
        except SendError as error:
            raise self._to_connect_error(error) from error
        self._check_scopes()
        parser = SlackParser(
            identity, account=self.account, reply_in_threads=self._settings.threads
        )
        return SlackReceiver(
            self._client,
            parser,
            SlackUsers(self._client),
            intake=intake,
            max_file_bytes=self._settings.max_file_mb * 2**20,
            checkpoint=checkpoint,
            catch_up=backlog.catch_up,
        )

    def _check_scopes(self) -> None:
        self._update_capabilities()
        if self._client.scopes and WRITE_SCOPE not in self._client.scopes:
            raise missing_scope_error(WRITE_SCOPE)
        for grant in self.capabilities.missing_grants:
            log.warning("The Slack app lacks %s", grant, extra={"action": "scopes_missing"})
        if not self.capabilities.lookup:
            log.warning(
                "A message whose response is lost may be sent twice: looking it up in Slack needs "
                "the scopes %s. Add them under OAuth & Permissions at %s, and install the app "
                "into the workspace again",
                ", ".join(sorted(HISTORY_SCOPES - self._client.scopes)),
                APPS_PAGE,
                extra={"action": "scopes_missing"},
            )

    def _update_capabilities(self) -> None:
        scopes = self._client.scopes
        self.capabilities = msgspec.structs.replace(
            self.capabilities,
            lookup=scopes >= HISTORY_SCOPES,
            reactions=REACTIONS_SCOPE in scopes,
            missing_grants=missing_scope_warnings(scopes),
        )

    @asynccontextmanager
    async def _receive_by_socket(
        self,
        receiver: SlackReceiver,
        backlog: SlackBacklog,
        intake: Intake,
        on_activity: Callable[[], None],
    ) -> AsyncIterator[None]:
        assert self._app_token is not None, "Socket Mode needs the app token"
        socket = SocketModeConnection(self._client, self._app_token, on_activity=on_activity)
        try:
            await self._open_socket(socket)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._listen(socket, intake), name="slack socket"),
                    group.create_task(
                        self._process_backlog(backlog, receiver, intake), name="slack backlog"
                    ),
                    group.create_task(socket.process_events(receiver), name="slack events"),
                    group.create_task(
                        socket.process_interactions(receiver), name="slack interactions"
                    ),
                    group.create_task(socket.send_pings(), name="slack pings"),
                ]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            await socket.close()

    async def _open_socket(self, socket: SocketModeConnection) -> None:
        try:
            await socket.open()
        except Throttled:
            raise
        except SendError as error:
            raise self._to_connect_error(error, key="app_token") from error

    async def _listen(self, socket: SocketModeConnection, intake: Intake) -> None:
        """Runs until the connection is lost, which is reported to intake."""
        try:
            await socket.listen()
        except ConnectError as error:
            intake.report_lost(self.name, self.account, error)
        except SendError as error:
            intake.report_lost(
                self.name, self.account, self._to_connect_error(error, key="app_token")
            )

    @asynccontextmanager
    async def _receive_by_http(
        self,
        receiver: SlackReceiver,
        backlog: SlackBacklog,
        intake: Intake,
        on_activity: Callable[[], None],
    ) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._send_keepalives(intake), name="slack keepalives"),
                    group.create_task(
                        self._process_backlog(backlog, receiver, intake), name="slack backlog"
                    ),
                ]
                self._events_endpoint.start(receiver)
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self._events_endpoint.stop()

    async def _process_backlog(
        self, backlog: SlackBacklog, receiver: SlackReceiver, intake: Intake
    ) -> None:
        """Processes missed messages. A live event waits for those of its own chat, which keeps
        their order. An event that Slack sends again meanwhile is a duplicate, which intake
        ignores."""
        try:
            await backlog.fetch_missed(receiver)
        except SendError as error:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))

    async def _send_keepalives(self, intake: Intake) -> None:
        while True:
            await asyncio.sleep(_KEEPALIVE_INTERVAL)
            try:
                await self._client.call_form("auth.test", SlackIdentity)
            except Throttled:
                continue
            except SendError as error:
                intake.report_lost(self.name, self.account, self._to_connect_error(error))
                return

    def _to_connect_error(self, error: SendError, *, key: str = "token") -> ConnectError:
        """The state of the account after a failed call: refused if only a person can fix it, else
        disconnected."""
        if isinstance(error, MissingScope):
            return missing_scope_error(error.needed)
        if isinstance(error, SlackBadToken):
            where = f"{account_table(self.name, self.account)}.{key}"
            return ConnectRefused(
                "{error}: it is wrong, was revoked, or its app was removed",
                error=error,
                page=APPS_PAGE,
                where=where,
                remedy="Copy the token from {page} and set {where}.",
            )
        return AccountDisconnected("{error}", error=error)


async def check_account(context: PluginContext[SlackSettings]) -> AccountIdentity:
    """Tries both tokens; the socket URL that Slack returns for the app token is not used. Raises
    the `SendError` of the token that fails, or `ConnectRefused` if the app may not send
    messages."""
    client = SlackClient(context.secrets["token"], base_url=context.settings.base_url)
    async with client.open(lambda: None, lambda _: None):
        identity = await client.call_form("auth.test", SlackIdentity)
        if (app_token := context.secrets.get("app_token")) is not None:
            await client.call_with_token(app_token, "apps.connections.open", SocketUrl)
    if client.scopes and WRITE_SCOPE not in client.scopes:
        raise missing_scope_error(WRITE_SCOPE)
    return AccountIdentity(
        name=f"@{identity.user}", missing_grants=missing_scope_warnings(client.scopes)
    )
