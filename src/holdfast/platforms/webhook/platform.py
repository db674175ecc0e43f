"""The webhook platform: hooks that programs post to, and an endpoint that answers are posted to."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from holdfast.core.config.settings import account_table
from holdfast.core.errors import (
    AccountDisconnected,
    ConnectError,
    ConnectRefused,
    SendError,
    SendRejected,
)
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities, Formatting
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.secrets import Secret, mask_passwords
from holdfast.platforms.webhook.client import WebhookUnauthorized, create_client
from holdfast.platforms.webhook.plugin import PLATFORM, WebhookSettings
from holdfast.platforms.webhook.receiver import WebhookFile, WebhookReceiver, encode_file

log = logging.getLogger(__name__)

MAX_MESSAGE_LENGTH = 100_000  # characters of one message; a longer text is posted in parts
MAX_FILE_BYTES = 25 * 1024 * 1024  # bytes of one file; as base64 it is a third larger


class WebhookMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="message"):
    """The posted body: the same for one delivery in every attempt."""

    id: str
    account: str
    chat: str
    thread: str | None
    text: str
    part: int
    maybe_repeated: bool
    file: WebhookFile | None


def capabilities_of(settings: WebhookSettings) -> Capabilities:
    """Without a url, answers are fetched. It is unknown whether a program repeats a post that was
    not accepted, so no backlog is declared."""
    sends = bool(settings.url)
    return Capabilities(
        fetchable=not sends,
        idempotent_send=sends and settings.idempotent,
        max_length=MAX_MESSAGE_LENGTH,
        formatting=Formatting.MARKDOWN,
        busy_notices=False,
        restart_notices=sends,
        threads=True,
        attachments_in=any(hook.files for hook in settings.hooks.values()),
        attachments_out=sends,
        max_file=MAX_FILE_BYTES,
    )


class WebhookPlatform:
    """Owns its hooks and its HTTP client while it is connected.

    The two are independent: posts are accepted whether or not the endpoint is reachable.
    """

    def __init__(
        self,
        secrets: Mapping[str, Secret],
        *,
        account: str,
        settings: WebhookSettings,
        clock: Clock,
        new_id: IdFactory,
    ) -> None:
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._new_id = new_id
        self._receiver = WebhookReceiver(settings.hooks, secrets, account=account, clock=clock)
        self._client = create_client(settings, secrets, clock=clock)
        self._report_lost: Callable[[ConnectError], None] = lambda _: None

    def routes(self) -> Sequence[web.RouteDef]:
        return self._receiver.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def alive() -> None:
            intake.report_alive(self.name, self.account)

        def lost(error: ConnectError) -> None:
            intake.report_lost(self.name, self.account, error)

        async with self._client.open(alive):
            self._receiver.start(intake)  # posts do not wait for the endpoint
            try:
                if self._pings_enabled:
                    await self._first_ping()
                self._report_lost = lost
                async with asyncio.TaskGroup() as tasks:
                    pings = tasks.create_task(self._ping_periodically(), name="webhook pings")
                    try:
                        yield
                    finally:
                        pings.cancel()
            finally:
                self._receiver.stop()

    async def send(self, outbound: Outbound) -> Receipt:
        if not self._settings.url:
            raise SendRejected("this account has no url: its answers are fetched, never sent")
        body = await _encode_message(outbound)
        try:
            await self._client.post(outbound.delivery_id, body)
        except WebhookUnauthorized as error:
            self._report_lost(self._connect_refused(error))
            raise
        return Receipt(platform_message_id=outbound.delivery_id)

    async def probe(self) -> None:
        if self._settings.url:
            await self._ping()

    async def _first_ping(self) -> None:
        """Ping the endpoint. Raises `ConnectRefused` if it rejects our secret. Hooks work without
        the endpoint; only an account without hooks is then not connected."""
        try:
            await self._ping()
        except SendError as error:
            if not self._settings.hooks:
                raise
            log.warning(
                "Account %s:%s accepts posts, but its answers wait until the endpoint responds: %s",
                self.name,
                self.account,
                error,
                extra={"action": "webhook_endpoint_unreachable"},
            )

    async def _ping(self) -> None:
        try:
            await self._client.ping(self._new_id("ping"), account=self.account)
        except WebhookUnauthorized as error:
            raise self._connect_refused(error) from error

    async def _ping_periodically(self) -> None:
        while self._pings_enabled:
            await asyncio.sleep(self._settings.ping_every)
            try:
                await self._ping()
            except ConnectRefused as error:
                self._report_lost(error)
            except SendError as error:
                log.debug(
                    "The webhook endpoint did not respond to a ping: %s",
                    error,
                    extra={"action": "webhook_endpoint_unreachable"},
                )
                if not self._settings.hooks:
                    self._report_lost(AccountDisconnected("{error}", error=error))

    @property
    def _pings_enabled(self) -> bool:
        return bool(self._settings.url and self._settings.ping_every)

    def _connect_refused(self, error: WebhookUnauthorized) -> ConnectRefused:
        table = account_table(self.name, self.account)
        return ConnectRefused(
            "{error}",
            error=error,
            table=table,
            remedy="Set {table}.url and {table}.secret to those of the endpoint.",
        )


async def _encode_message(outbound: Outbound) -> bytes:
    """A message with a file is encoded in a thread, to keep the event loop free."""
    if outbound.file is None:
        return msgspec.json.encode(_to_message(outbound))
    return await asyncio.to_thread(lambda: msgspec.json.encode(_to_message(outbound)))


def _to_message(outbound: Outbound) -> WebhookMessage:
    file = outbound.file
    return WebhookMessage(
        id=outbound.delivery_id,
        account=outbound.address.account,
        chat=outbound.address.chat_id,
        thread=outbound.address.thread_id,
        text=outbound.text,
        part=outbound.part,
        maybe_repeated=outbound.may_be_duplicate,
        file=None if file is None else encode_file(file.name, file.data),
    )


async def check_account(context: PluginContext[WebhookSettings]) -> AccountIdentity:
    """Raises a `SendError` if the endpoint rejects us or is unreachable. Without a url there is
    nothing to check: a hook is verified when it is posted to."""
    settings = context.settings
    if not settings.url:
        return AccountIdentity(name=f"hooks {', '.join(settings.hooks)}")
    client = create_client(settings, context.secrets, clock=context.clock)
    async with client.open(lambda: None):
        await client.ping(context.new_id("ping"), account=context.account)
    return AccountIdentity(name=mask_passwords(settings.url))
