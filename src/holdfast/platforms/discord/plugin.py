"""Declares the Discord platform and the settings of a bot."""

from typing import Annotated

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)

PORTAL_URL = "https://discord.com/developers/applications"
NEW_TOKEN_REMEDY = f"{PORTAL_URL}, Bot, Reset Token gives a new one; set platforms.discord.token"


class DiscordSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: what the developer portal gave
    message_content: bool = True  # ask for what is said in servers without naming the bot
    menu: bool = True  # the commands are offered as slash commands
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=500)] = 25

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise ValueError(
                f"token is missing: {PORTAL_URL} gives one (Bot, "
                'Reset Token); write token = "env:DISCORD_BOT_TOKEN" and put it into the '
                "environment or .env"
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
    setup_guide=(
        f"Open {PORTAL_URL}, choose New Application, and under Bot switch on Message Content "
        "Intent. "
        "Under OAuth2, URL Generator, tick bot and applications.commands with the permissions "
        "View Channels, Send Messages, Send Messages in Threads, Attach Files, Read Message "
        "History and Add Reactions; open the address that it makes, and choose your server."
    ),
    setup_questions=(
        SetupQuestion(
            key="token",
            label="The token of the bot",
            help="Under Bot, Reset Token shows it, once.",
            variable="DISCORD_BOT_TOKEN",
        ),
    ),
    user_id_help=(
        "the number of your account (Settings, Advanced, Developer Mode; then Copy User ID stands "
        "in the menu of every person)"
    ),
    check=_check,
)
