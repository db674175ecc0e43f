"""The Slack platform: one app of a workspace, composed of client, receiver and sender; and the check of its credentials."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
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
from holdfast.platforms.slack.backlog import SlackBacklog as PastEvents
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
    SlackUserNames,
    SocketModeConnection,
)
from holdfast.platforms.slack.sender import REPEAT_NOTICE_LENGTH, SlackDeliveryLookup, SlackSender
from holdfast.platforms.text.slack import MAX_LENGTH, fits

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.slack.platform: The Slack platform: one app of a workspace, connected by hearing its events.
_KEEPALIVE_INTERVAL = 60.0  # seconds between two questions, where events are posted
_CHECKPOINT_FILE = "heard.json"


def capabilities_of(settings: SlackSettings) -> Capabilities:
    """Slack takes about one message a second in a chat, and has no idempotency key. Whether it can
    be asked for what has arrived depends on what the app may do, and is known once connected."""
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
    """A door to one app. It owns its line while it is connected, and keeps a record of where it was
    heard, and how far, in `folder`."""

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
        """`limit`: seconds after which a question without an answer has none."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._app_token = secrets.get("app_token")
        self._client = SlackClient(secrets["token"], base_url=settings.base_url, timeout=timeout)
        self._sender = SlackSender(self._client)
        self._delivery_lookup = SlackDeliveryLookup(self._client)
        self._events_endpoint = SlackEventsEndpoint(
            secrets.get("signing_secret"), account=account, clock=clock
        )

    def routes(self) -> Sequence[web.RouteDef]:
        return self._events_endpoint.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def alive() -> None:
            intake.report_alive(self.name, self.account)

        def turned_away(error: SlackBadToken) -> None:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))

        async with self._client.open(alive, turned_away):
            record = await SlackCheckpoint.load(
                self._folder / _CHECKPOINT_FILE, now=self._clock.now()
            )
            taking = await self._make_receiver(intake, record)
            receiving = (
                self._receive_by_socket if self._app_token is not None else self._receive_by_http
            )
            try:
                async with receiving(taking, PastEvents(self._client, record), intake, alive):
                    yield
            finally:
                await record.save_disconnected(self._clock.now())

    def fits(self, text: str) -> bool:
        return fits(text, limit=MAX_LENGTH - REPEAT_NOTICE_LENGTH)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._sender.send(outbound)

    async def edit(self, edit: MessageEdit) -> None:
        await self._sender.edit(edit)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._sender.react(address, message_id, emoji)

    async def find_delivery(self, delivery_id: DeliveryId, address: Address) -> Receipt | None:
        return await self._delivery_lookup.find_delivery(delivery_id, address)

    async def probe(self) -> None:
        try:
            await self._client.call_form("auth.test", SlackIdentity)
        except SlackBadToken as error:
            raise self._to_connect_error(error) from error
        self._update_capabilities()

    async def _make_receiver(self, intake: Intake, checkpoint: SlackCheckpoint) -> SlackReceiver:
        """Who we are, and what we may do here."""
        try:
            me = await self._client.call_form("auth.test", SlackIdentity)
        except Throttled:
            raise
        except SendError as error:
            raise self._to_connect_error(error) from error
        self._check_scopes()
        reader = SlackParser(me, account=self.account, reply_in_threads=self._settings.threads)
        most = self._settings.max_file_mb * 2**20
        people = SlackUserNames(self._client)
        return SlackReceiver(
            self._client, reader, people, intake=intake, max_file_bytes=most, checkpoint=checkpoint
        )

    def _check_scopes(self) -> None:
        self._update_capabilities()
        if self._client.scopes and WRITE_SCOPE not in self._client.scopes:
            raise missing_scope_error(WRITE_SCOPE)
        for each in self.capabilities.missing_grants:
            log.warning("The Slack app lacks %s.", each, extra={"action": "scopes_missing"})
        if not self.capabilities.lookup:
            log.warning(
                "Whether a message to Slack without a receipt has arrived cannot be looked up, and "
                "it may be read twice.",
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
        backlog: PastEvents,
        intake: Intake,
        on_activity: Callable[[], None],
    ) -> AsyncIterator[None]:
        assert self._app_token is not None, "there is a socket only with it"
        socket = SocketModeConnection(self._client, self._app_token, on_activity=on_activity)
        try:
            await self._open_socket(socket)
            async with asyncio.TaskGroup() as errands:
                tasks = [
                    errands.create_task(self._listen(socket, intake), name="slack socket"),
                    errands.create_task(
                        self._process_backlog(
                            backlog, receiver, intake, then=socket.process_events
                        ),
                        name="slack events",
                    ),
                    errands.create_task(socket.process_interactions(receiver), name="slack orders"),
                    errands.create_task(socket.send_pings(), name="slack pings"),
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
        """Until the line breaks, which is told to whoever mends lines."""
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
        backlog: PastEvents,
        intake: Intake,
        on_activity: Callable[[], None],
    ) -> AsyncIterator[None]:
        async def begin(taking: SlackReceiver) -> None:
            self._events_endpoint.start(taking)

        try:
            async with asyncio.TaskGroup() as errands:
                tasks = [
                    errands.create_task(self._send_keepalives(intake), name="slack signs of life"),
                    errands.create_task(
                        self._process_backlog(backlog, receiver, intake, then=begin),
                        name="slack backlog",
                    ),
                ]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        finally:
            self._events_endpoint.stop()

    async def _process_backlog(
        self,
        backlog: PastEvents,
        receiver: SlackReceiver,
        intake: Intake,
        *,
        then: Callable[[SlackReceiver], Awaitable[None]],
    ) -> None:
        """What was missed, and only then what is told now: it was said behind that. Slack brings
        again what waits for it meanwhile, and it counts once."""
        try:
            await backlog.fetch_missed(receiver, now=self._clock.now())
        except SendError as error:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))
            return
        await then(receiver)

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
        """What a broken line means for the account."""
        if isinstance(error, MissingScope):
            return missing_scope_error(error.needed)
        if isinstance(error, SlackBadToken):
            where = f"{account_table(self.name, self.account)}.{key}"
            return ConnectRefused(
                f"{error}: it is wrong, was revoked, or its app was removed",
                remedy=f"take the token from {APPS_PAGE} and set {where}",
            )
        return AccountDisconnected(str(error))


# MERGED holdfast.platforms.slack.check: Asking Slack whose tokens those are.
async def check_account(context: PluginContext[SlackSettings]) -> AccountIdentity:
    """Both tokens are shown to Slack; the ticket for a socket that it gives for the second one is
    not used. Raises the `SendError` that says what is wrong with which, and `ConnectRefused` where
    the app may not even write."""
    api = SlackClient(context.secrets["token"], base_url=context.settings.base_url)
    async with api.open(lambda: None, lambda _: None):
        me = await api.call_form("auth.test", SlackIdentity)
        if (app_token := context.secrets.get("app_token")) is not None:
            await api.call_with_token(app_token, "apps.connections.open", SocketUrl)
    if api.scopes and WRITE_SCOPE not in api.scopes:
        raise missing_scope_error(WRITE_SCOPE)
    return AccountIdentity(name=f"@{me.user}", missing_grants=missing_scope_warnings(api.scopes))
