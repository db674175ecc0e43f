"""Asking Discord whose token that is."""

from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.discord.client import DiscordClient
from holdfast.platforms.discord.platform import load_connection
from holdfast.platforms.discord.plugin import DiscordSettings
from holdfast.platforms.discord.wire import DiscordUser


async def check_account(context: PluginContext[DiscordSettings]) -> AccountIdentity:
    """Raises a `SendError` for a token that Discord does not know, and `ConnectRefused` where the
    library is missing without which the account could not be connected."""
    base_url, _ = load_connection(context.settings)
    api = DiscordClient(context.secrets["token"])
    async with api.open(base_url, lambda: None):
        me = await api.call("GET", "/users/@me", DiscordUser)
    return AccountIdentity(name=me.username, chat_link=f"https://discord.com/users/{me.id}")
