"""Asking Telegram whose token that is."""

from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.telegram.client import TelegramClient
from holdfast.platforms.telegram.plugin import TelegramSettings
from holdfast.platforms.telegram.wire import TelegramUser


async def check_account(context: PluginContext[TelegramSettings]) -> AccountIdentity:
    """Raises the `SendError` that says what Telegram made of the token."""
    api = TelegramClient(context.secrets["token"], base_url=context.settings.base_url)
    async with api.open(lambda: None):
        me = await api.call("getMe", TelegramUser)
    return AccountIdentity(name=f"@{me.username}", chat_link=f"https://t.me/{me.username}")
