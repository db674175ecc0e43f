"""Declares the Telegram platform and the settings of a bot."""

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.platform_plugin import (
    AccountIdentity,
    PlatformPlugin,
    PluginContext,
    SetupQuestion,
)

API_URL = "https://api.telegram.org"


class TelegramSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference: what @BotFather gave
    base_url: str = API_URL  # or a Bot API server of one's own
    webhook: str = ""  # the https address of the proxy in front of us; "": updates are polled
    poll_seconds: Annotated[int, msgspec.Meta(ge=1, le=50)] = 25
    menu: bool = True  # the commands are shown in the menu of the chat
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=2000)] = 20  # the Bot API gives no larger

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise ValueError(
                'token is missing: @BotFather gives one; write token = "env:TELEGRAM_BOT_TOKEN" '
                "and put it into the environment or .env"
            )
        if self.webhook and urlsplit(self.webhook).scheme != "https":
            raise ValueError(
                f"webhook = {self.webhook!r} is no https address, and Telegram posts to no other"
            )


def _open(context: PluginContext[TelegramSettings]) -> Platform:
    from holdfast.platforms.telegram.platform import (  # noqa: PLC0415 - imports an HTTP client
        TelegramPlatform,
    )

    return TelegramPlatform(
        context.secrets["token"], account=context.account, settings=context.settings
    )


async def _check(context: PluginContext[TelegramSettings]) -> AccountIdentity:
    from holdfast.platforms.telegram.platform import check_account  # noqa: PLC0415 - imports an HTTP client

    return await check_account(context)


PLUGIN = PlatformPlugin(
    name="telegram",
    settings=TelegramSettings,
    open=_open,
    setup_guide=(
        "Open a chat with @BotFather in Telegram (https://t.me/BotFather), say /newbot, and "
        "choose a name. He gives you a token."
    ),
    setup_questions=(
        SetupQuestion(
            key="token",
            label="The token of the bot",
            help="It looks like 123456:ABC-DEF…; whoever has it is the bot.",
            variable="TELEGRAM_BOT_TOKEN",
        ),
    ),
    user_id_help="the number of your account (bots like @userinfobot tell it)",
    check=_check,
)
