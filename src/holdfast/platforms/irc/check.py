"""Asking a server whether it lets us in, and by which nick."""

from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.irc.greeting import Greeting
from holdfast.platforms.irc.link import linked
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.wire import written


async def check(opening: Opening[IrcSettings]) -> Known:
    """No channel is joined, and nobody sees more of it than that the nick was there."""
    settings = opening.settings
    async with linked(settings, lambda: None) as link:
        greeting = Greeting(link, settings, opening.secrets, account=opening.account)
        welcome = await greeting.welcomed()
        link.write(written("QUIT", "until later"))
    return Known(name=f"{welcome.nick} on {settings.host}")
