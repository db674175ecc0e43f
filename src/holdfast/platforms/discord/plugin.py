"""Declares the Discord platform and the settings of a bot."""

from typing import Annotated

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.errors import InvalidSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)
from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_

PORTAL_URL = "https://discord.com/developers/applications"
API_URL = "https://discord.com/api/v10"
NEW_TOKEN_REMEDY = Translatable(
    N_("Get a new token ({portal}, Bot, Reset Token) and set platforms.discord.token."),
    {"portal": PORTAL_URL},
)


class DiscordSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference to the token from the developer portal
    message_content: bool = True  # receive messages in servers that do not mention the bot
    menu: bool = True  # the commands are available as slash commands
    base_url: str = API_URL  # or a proxy; the gateway is the one that it names
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=500)] = 25

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise InvalidSettings(
                "token is missing: get one at {url} (Bot, Reset Token), write "
                'token = "env:DISCORD_BOT_TOKEN" and set that variable in the environment '
                "or in .env",
                url=PORTAL_URL,
            )


def _open(context: PluginContext[DiscordSettings]) -> Platform:
    from holdfast.platforms.discord.platform import (  # noqa: PLC0415 - imports an HTTP client
        DiscordPlatform,
    )

    return DiscordPlatform(
        context.secrets["token"],
        account=context.account,
        settings=context.settings,
        folder=context.folder,
        clock=context.clock,
    )


async def _check(context: PluginContext[DiscordSettings]) -> AccountIdentity:
    from holdfast.platforms.discord.platform import (  # noqa: PLC0415 - imports an HTTP client
        check_account,
    )

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="discord",
    settings=DiscordSettings,
    open=_open,
    if_shared=N_(
        "Reset the token at https://discord.com/developers/applications (Bot, Reset Token), and "
        "set the new one here alone."
    ),
    setup_guide=N_(
        "Open https://discord.com/developers/applications, choose New Application, and under "
        "Bot enable Message Content Intent. Under OAuth2, URL Generator, tick bot and "
        "applications.commands with the permissions View Channels, Send Messages, Send "
        "Messages in Threads, Attach Files, Read Message History and Add Reactions; open the "
        "generated URL, and choose your server."
    ),
    setup_questions=(
        SetupQuestion(
            key="token",
            label=N_("The token of the bot"),
            help=N_("Shown once under Bot, Reset Token."),
            variable="DISCORD_BOT_TOKEN",
        ),
    ),
    user_id_help=N_(
        "the number of your account (enable Settings, Advanced, Developer Mode; then the menu "
        "of every person has Copy User ID)"
    ),
    check=_check,
)
