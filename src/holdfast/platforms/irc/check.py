"""Asking a server whether it lets us in, and by which nick."""

from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.irc.greeting import IrcRegistration
from holdfast.platforms.irc.link import open_socket
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.wire import format_line


async def check_account(context: PluginContext[IrcSettings]) -> AccountIdentity:
    """No channel is joined, and nobody sees more of it than that the nick was there."""
    settings = context.settings
    async with open_socket(settings, lambda: None) as link:
        greeting = IrcRegistration(link, settings, context.secrets, account=context.account)
        welcome = await greeting.register()
        link.write(format_line("QUIT", "until later"))
    return AccountIdentity(name=f"{welcome.nick} on {settings.host}")
