"""Asking Telegram whose token that is."""

from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.telegram.client import BotApi
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.platforms.telegram.wire import User


async def check(opening: Opening[TelegramSettings]) -> Known:
    """Raises the `SendError` that says what Telegram made of the token."""
    api = BotApi(opening.secrets["token"], base_url=opening.settings.base_url)
    async with api.open(lambda: None):
        me = await api.call("getMe", User)
    return Known(name=f"@{me.username}", at=f"https://t.me/{me.username}")
