"""Asking an XMPP server whether it knows the account."""

import asyncio

from holdfast.core.ports.door import AccountIdentity, PluginContext
from holdfast.platforms.xmpp.platform import client_factory
from holdfast.platforms.xmpp.plugin import XmppSettings


async def check_account(context: PluginContext[XmppSettings]) -> AccountIdentity:
    """Logs in and out again, unseen: nobody is shown a presence, and no message is taken. Under a
    name of its own, so that a gateway that is connected stays so."""
    settings = context.settings
    make = await asyncio.to_thread(client_factory, settings, account=context.account)
    line = make(settings, context.secrets["password"], resource="")
    async with line.open_session():
        pass
    return AccountIdentity(name=settings.jid, chat_link=f"xmpp:{settings.jid}")
