"""Asking Discord whose token that is."""

from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.discord.client import RestApi
from holdfast.platforms.discord.platform import library
from holdfast.platforms.discord.plugin import DiscordSettings
from holdfast.platforms.discord.wire import User


async def check(opening: Opening[DiscordSettings]) -> Known:
    """Raises a `SendError` for a token that Discord does not know, and `ConnectRefused` where the
    library is missing without which the account could not be connected."""
    base_url, _ = library(opening.settings)
    api = RestApi(opening.secrets["token"])
    async with api.open(base_url, lambda: None):
        me = await api.call("GET", "/users/@me", User)
    return Known(name=me.username, at=f"https://discord.com/users/{me.id}")
