"""Declares the Telegram platform and the settings of a bot."""

from typing import Annotated
from urllib.parse import urlsplit

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
from holdfast.core.text.translation import N_

API_URL = "https://api.telegram.org"


class TelegramSettings(PlatformSettings, frozen=True, kw_only=True):
    token: str = ""  # a reference to the token from @BotFather
    base_url: str = API_URL  # or your own Bot API server
    webhook: str = ""  # the public https URL of your reverse proxy; "": updates are polled
    poll_seconds: Annotated[int, msgspec.Meta(ge=1, le=50)] = 25
    menu: bool = True  # show the commands in the chat's menu
    # The Bot API's maximum for downloads.
    max_file_mb: Annotated[int, msgspec.Meta(ge=0, le=2000)] = 20

    def __post_init__(self) -> None:
        if self.enabled and not self.token:
            raise InvalidSettings(
                "token is missing: get one from @BotFather, write token = "
                '"env:TELEGRAM_BOT_TOKEN" and set that variable in the environment or in '
                ".env"
            )
        if self.webhook and urlsplit(self.webhook).scheme != "https":
            raise InvalidSettings(
                "webhook = {url!r} is not an https URL, and Telegram requires one",
                url=self.webhook,
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
    setup_guide=N_(
        "Open a chat with @BotFather in Telegram (https://t.me/BotFather), send /newbot, and "
        "choose a name. It replies with a token."
    ),
    setup_questions=(
        SetupQuestion(
            key="token",
            label=N_("The token of the bot"),
            help=N_("It looks like 123456:ABC-DEF…; anyone who has it controls the bot."),
            variable="TELEGRAM_BOT_TOKEN",
        ),
    ),
    user_id_help=N_("the number of your account (bots like @userinfobot show it)"),
    check=_check,
)
