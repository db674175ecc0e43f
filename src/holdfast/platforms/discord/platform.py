"""The Discord platform: one bot, which receives over the gateway websocket and sends over REST."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME, command_menu
from holdfast.core.errors import ConnectError, ConnectRefused, SendError
from holdfast.core.messages.outbox import Address, MessageEdit, Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities, ChatIdFormat, Formatting
from holdfast.core.ports.platform import Intake
from holdfast.core.ports.platform_plugin import AccountIdentity, PluginContext
from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import use_catalogue
from holdfast.platforms.discord.client import DiscordBadToken, DiscordClient
from holdfast.platforms.discord.events import PLATFORM, DiscordUser, snowflake_at
from holdfast.platforms.discord.history import DiscordCheckpoint
from holdfast.platforms.discord.plugin import NEW_TOKEN_REMEDY, DiscordSettings
from holdfast.platforms.discord.receiver import DiscordReceiver, DiscordReceiverConfig
from holdfast.platforms.discord.sender import DiscordSender
from holdfast.platforms.text.discord import MAX_LENGTH, fits
from holdfast.system.languages import catalogue_for, translated_languages

if TYPE_CHECKING:
    from holdfast.platforms.discord.connection import DiscordConnection

log = logging.getLogger(__name__)

_MAX_DESCRIPTION_LENGTH = 100
# https://discord.com/developers/docs/reference#locales; an unknown one refuses the whole menu.
_LOCALES = frozenset(
    [
        "id",
        "da",
        "de",
        "en-GB",
        "en-US",
        "es-ES",
        "es-419",
        "fr",
        "hr",
        "it",
        "lt",
        "hu",
        "nl",
        "no",
        "pl",
        "pt-BR",
        "ro",
        "fi",
        "sv-SE",
        "vi",
        "tr",
        "cs",
        "el",
        "bg",
        "ru",
        "uk",
        "hi",
        "th",
        "zh-CN",
        "ja",
        "zh-TW",
        "ko",
    ]
)
_TEXT_OPTION = 3  # the type of an option that is a text
_GUILD_CONTEXT, _DM_CONTEXT = 0, 1  # where a command is available


def slash_commands() -> list[dict[str, Any]]:
    """The commands that Discord offers in its menu, without those of admins
    (https://discord.com/developers/docs/interactions/application-commands). The arguments of a
    command are one text, which the command parses."""
    translations = _translated_descriptions()
    return [
        {
            "name": each.name,
            "description": each.help[:_MAX_DESCRIPTION_LENGTH],
            "description_localizations": translations[each.name],
            "contexts": [_GUILD_CONTEXT, _DM_CONTEXT],
            "options": _options(COMMANDS_BY_NAME[each.name].arguments),
        }
        for each in command_menu()
    ]


def _translated_descriptions() -> dict[str, dict[str, str]]:
    """The description of each command in the languages that Discord knows, by their locales."""
    found: dict[str, dict[str, str]] = {name: {} for name in COMMANDS_BY_NAME}
    for language in translated_languages():
        if language in _LOCALES:
            with use_catalogue(catalogue_for(language)):
                for each in command_menu():
                    found[each.name][language] = each.help[:_MAX_DESCRIPTION_LENGTH]
    return found


def _options(arguments: str) -> list[dict[str, Any]]:
    if not arguments:
        return []
    required = not arguments.startswith("[")
    description = arguments[:_MAX_DESCRIPTION_LENGTH]
    return [
        {"type": _TEXT_OPTION, "name": "text", "description": description, "required": required}
    ]


def capabilities_of(settings: DiscordSettings) -> Capabilities:
    """Discord accepts about five messages in five seconds in a channel, edits among them; its
    heartbeat is answered every 41 seconds."""
    return Capabilities(
        backlog=Backlog.HISTORY,
        idempotent_send=True,
        max_length=MAX_LENGTH,
        formatting=Formatting.MARKDOWN,
        edit=True,
        edit_interval=1.5,
        typing=True,
        buttons=True,
        reactions=True,
        threads=True,
        attachments_in=settings.max_file_mb > 0,
        attachments_out=True,
        chat_id_format=ChatIdFormat(pattern=r"[0-9]{1,20}", example="1234567890123456789"),
        heartbeat_interval=120.0,
    )


class DiscordPlatform:
    """One bot. Owns its connection while it is connected, and its checkpoint in `folder`."""

    def __init__(
        self,
        token: Secret,
        *,
        account: str,
        settings: DiscordSettings,
        folder: Path,
        clock: Clock,
        timeout: float = 20.0,
    ) -> None:
        """`timeout` is in seconds, for each REST call."""
        self.name = PLATFORM
        self.account = account
        self.capabilities = capabilities_of(settings)
        self._token = token
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._client = DiscordClient(token, base_url=settings.base_url, timeout=timeout)
        self._receiver_config = DiscordReceiverConfig(
            client=self._client, account=account, max_file_bytes=settings.max_file_mb * 2**20
        )
        self._sender = DiscordSender(self._client)

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        def on_response() -> None:
            intake.report_alive(self.name, self.account)

        def on_bad_token(error: DiscordBadToken) -> None:
            intake.report_lost(self.name, self.account, _refusal(error))

        connection = await asyncio.to_thread(load_connection, self._settings)
        async with (
            self._client.open(on_response, on_bad_token),
            connection.logged_in(self._token) as (me, application),
        ):
            checkpoint = await self._load_checkpoint(me)
            async with asyncio.TaskGroup() as tasks:
                receiver = DiscordReceiver(
                    self._receiver_config, me, checkpoint, intake=intake, tasks=tasks
                )
                work = [tasks.create_task(receiver.run_until_closed(connection), name="gateway")]
                try:
                    ended = await receiver.wait_connected(work[0])
                    if ended is None:
                        work[0].add_done_callback(partial(self._report_lost, intake))
                        work += self._startup_tasks(application, tasks)
                        yield
                finally:
                    for task in work:
                        task.cancel()
                    await receiver.stop()
            if ended is not None:  # raised inside, it would be wrapped by the task group
                raise ended

    def fits(self, text: str) -> bool:
        return fits(text)

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
            await self._client.call("GET", "/users/@me", DiscordUser)
        except DiscordBadToken as error:
            raise _refusal(error) from error

    def _report_lost(self, intake: Intake, running: asyncio.Task[ConnectError]) -> None:
        if not running.cancelled() and running.exception() is None:
            intake.report_lost(self.name, self.account, running.result())

    async def _load_checkpoint(self, me: DiscordUser) -> DiscordCheckpoint:
        """Load the checkpoint. One file per bot: another bot in this account has other chats."""
        now = snowflake_at(self._clock.now())
        return await DiscordCheckpoint.load(self._folder / f"{me.id}.json", start=now)

    def _startup_tasks(
        self, application: str, tasks: asyncio.TaskGroup
    ) -> Sequence[asyncio.Task[Any]]:
        if not self._settings.menu:
            return ()
        return (tasks.create_task(self._set_commands(application), name="menu"),)

    async def _set_commands(self, application: str) -> None:
        path = f"/applications/{application}/commands"
        try:
            await self._client.call("PUT", path, msgspec.Raw, body=slash_commands())
        except SendError as error:
            # The bot works without a menu.
            log.warning(
                "Could not set the command menu: %s",
                error,
                extra={"action": "command_menu_not_set"},
            )


def _refusal(error: DiscordBadToken) -> ConnectRefused:
    return ConnectRefused("{error}", error=error, remedy=NEW_TOKEN_REMEDY)


def load_connection(settings: DiscordSettings) -> "DiscordConnection":
    """Call this in a thread: the import takes half a second."""
    try:
        from holdfast.platforms.discord.connection import (  # noqa: PLC0415 - imports discord.py
            DiscordConnection,
        )
    except ModuleNotFoundError as error:
        raise ConnectRefused(
            "discord.py is not installed ({error})",
            error=error,
            remedy="Run pip install 'holdfast[discord]', then restart the gateway.",
        ) from error
    return DiscordConnection(content=settings.message_content, base_url=settings.base_url)


async def check_account(context: PluginContext[DiscordSettings]) -> AccountIdentity:
    """Raises a `SendError` if Discord rejects the token, and `ConnectRefused` if discord.py is not
    installed."""
    load_connection(context.settings)
    client = DiscordClient(context.secrets["token"], base_url=context.settings.base_url)
    async with client.open(lambda: None, lambda _: None):
        me = await client.call("GET", "/users/@me", DiscordUser)
    return AccountIdentity(name=me.username, chat_link=f"https://discord.com/users/{me.id}")
