"""The Telegram platform: one bot, which receives its updates by polling or by a webhook."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from holdfast.core.commands import command_menu
from holdfast.core.config.settings import GroupReplyMode
from holdfast.core.errors import (
    AccountDisconnected,
    AccountInUse,
    ConnectError,
    ConnectRefused,
    SendError,
    Throttled,
)
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatIdFormat, LengthUnit
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import use_catalogue
from holdfast.platforms.telegram.client import (
    TelegramBadToken,
    TelegramClient,
    TelegramConflict,
    TelegramWebhookActive,
)
from holdfast.platforms.telegram.events import PLATFORM, TelegramParser, TelegramUser
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.platforms.telegram.receiver import (
    CHECK_INTERVAL,
    POLL_GRACE,
    TelegramPoller,
    TelegramReceiver,
    TelegramWebhook,
)
from holdfast.platforms.telegram.sender import REPEAT_NOTICE_LENGTH, TelegramSender
from holdfast.platforms.text.telegram import fits
from holdfast.system.languages import catalogue_for, translated_languages

log = logging.getLogger(__name__)

_MAX_LENGTH = 4096  # UTF-16 units of one message
_MAX_FILE_BYTES = 50 * 1024 * 1024  # bytes of one file from a bot
_MAX_DESCRIPTION_LENGTH = 256  # characters of a command in the menu


def capabilities_of(settings: TelegramSettings) -> Capabilities:
    """Telegram stores updates for a day, accepts about one message a second in a chat and twenty a
    minute in a group, and has no idempotency key."""
    polled = settings.poll_seconds + 2 * POLL_GRACE
    return Capabilities(
        backlog=Backlog.UNTIL_ACKED,
        max_length=_MAX_LENGTH - REPEAT_NOTICE_LENGTH,
        length_unit=LengthUnit.UTF16,
        merge_window=0.8,
        edit=True,
        edit_interval=1.5,
        group_edit_interval=4.0,
        typing=True,
        buttons=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        max_file=_MAX_FILE_BYTES,
        chat_id_format=ChatIdFormat(pattern=r"-?[0-9]{1,20}|@[A-Za-z0-9_]{4,32}", example="12345"),
        heartbeat_interval=2 * CHECK_INTERVAL if settings.webhook else polled,
    )


def _menu() -> list[dict[str, str]]:
    """In the language of the context."""
    return [
        {"command": each.name, "description": each.help[:_MAX_DESCRIPTION_LENGTH]}
        for each in command_menu()
    ]


class TelegramPlatform:
    """One bot. Owns its connection while it is connected, and no other state."""

    def __init__(
        self, token: Secret, *, account: str, settings: TelegramSettings, timeout: float = 20.0
    ) -> None:
        """`timeout` is in seconds, for each call of the Bot API."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._settings = settings
        self._client = TelegramClient(token, base_url=settings.base_url, timeout=timeout)
        self._sender = TelegramSender(self._client)
        self._webhook = TelegramWebhook(
            self._client, token, account=account, address=settings.webhook
        )

    def routes(self) -> Sequence[web.RouteDef]:
        return self._webhook.routes()

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        async with self._client.open(lambda: intake.report_alive(self.name, self.account)):
            me = await self._identify()
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._receive(me, intake, group), name="updates")]
                if self._settings.menu:
                    tasks.append(group.create_task(self._set_commands(), name="menu"))
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()

    def fits(self, text: str) -> bool:
        return fits(text, limit=_MAX_LENGTH - REPEAT_NOTICE_LENGTH)

    async def send(self, outbound: Outbound) -> Receipt:
        return await self._sender.send(outbound)

    async def edit(self, change: MessageEdit) -> None:
        await self._sender.edit(change)

    async def show_typing(self, address: Address) -> None:
        await self._sender.typing(address)

    async def react(self, address: Address, message_id: str, emoji: str | None) -> None:
        await self._sender.react(address, message_id, emoji)

    async def probe(self) -> None:
        try:
            await self._client.call("getMe", TelegramUser)
        except TelegramBadToken as error:
            raise self._to_connect_error(error) from error

    async def _identify(self) -> TelegramUser:
        """Return our own user, and register the webhook if there is one."""
        try:
            me = await self._client.call("getMe", TelegramUser)
            if self._settings.webhook:
                await self._webhook.register()
            self._warn_about_privacy_mode(me)
            return me
        except Throttled:
            raise
        except SendError as error:
            raise self._to_connect_error(error) from error

    def _warn_about_privacy_mode(self, me: TelegramUser) -> None:
        chats = [
            chat
            for chat, each in self._settings.chats.items()
            if each.answers is GroupReplyMode.ALL
        ]
        if chats and not me.can_read_all_group_messages:
            log.warning(
                "@%s is configured to answer every message in %s, but Telegram sends it "
                "only commands and replies there. Send /setprivacy to @BotFather and "
                "choose Disable, then remove the bot from the group and add it again, or "
                "make it an administrator.",
                me.username,
                ", ".join(chats),
                extra={"action": "privacy_mode"},
            )

    async def _receive(self, me: TelegramUser, intake: Intake, tasks: asyncio.TaskGroup) -> None:
        """Receive until the connection breaks, and report that to the gateway."""
        parser = TelegramParser(me, account=self.account)
        max_bytes = self._settings.max_file_mb * 2**20
        receiver = TelegramReceiver(
            self._client, parser, intake=intake, max_file_bytes=max_bytes, tasks=tasks
        )
        try:
            if self._settings.webhook:
                await self._webhook.run(receiver)
            else:
                await self._poll(parser, receiver, intake)
        except SendError as error:
            intake.report_lost(self.name, self.account, self._to_connect_error(error))
        finally:
            receiver.stop()

    async def _poll(
        self, parser: TelegramParser, receiver: TelegramReceiver, intake: Intake
    ) -> None:
        poller = TelegramPoller(self._client, receiver, poll_seconds=self._settings.poll_seconds)
        cursor = await intake.cursor(self.name, self.account, parser.cursor)
        try:
            await poller.run(cursor)
        except TelegramWebhookActive:
            await self._webhook.delete()
            await poller.run(cursor)

    async def _set_commands(self) -> None:
        """One menu for each language: Telegram shows a person the one of their app's language, and
        the English one if there is none."""
        try:
            await self._client.call("setMyCommands", bool, commands=_menu())
            for language in translated_languages():
                with use_catalogue(catalogue_for(language)):
                    menu = _menu()
                code = language.partition("-")[0]
                await self._client.call("setMyCommands", bool, commands=menu, language_code=code)
        except SendError as error:
            # The bot works without a menu.
            log.warning(
                "Could not set the command menu: %s",
                error,
                extra={"action": "command_menu_not_set"},
            )

    def _to_connect_error(self, error: SendError) -> ConnectError:
        """Convert the error of a failed call to an error of the account."""
        if isinstance(error, TelegramBadToken):
            key = "token" if self.account == "default" else f"accounts.{self.account}.token"
            return ConnectRefused(
                "{error}: the token is wrong or was revoked",
                error=error,
                key=key,
                remedy="Get the token from @BotFather (/mybots) and set platforms.telegram.{key}.",
            )
        if isinstance(error, TelegramConflict):
            return AccountInUse(
                "another program receives the messages of this bot ({error}). Stop it "
                "there, or give this gateway its own bot: messages that the other program "
                "receives never arrive here",
                error=error,
                holder=error.holder,
            )
        return AccountDisconnected("{error}", error=error)


async def check_account(context: PluginContext[TelegramSettings]) -> AccountIdentity:
    """Raises a `SendError` if Telegram rejects the token or is unreachable."""
    client = TelegramClient(context.secrets["token"], base_url=context.settings.base_url)
    async with client.open(lambda: None):
        me = await client.call("getMe", TelegramUser)
    return AccountIdentity(name=f"@{me.username}", chat_link=f"https://t.me/{me.username}")
