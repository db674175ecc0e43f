"""Asking an XMPP server whether it knows the account."""

import asyncio

from holdfast.core.ports.door import Known, Opening
from holdfast.platforms.xmpp.platform import library
from holdfast.platforms.xmpp.plugin import XmppSettings


async def check(opening: Opening[XmppSettings]) -> Known:
    """Logs in and out again, unseen: nobody is shown a presence, and no message is taken. Under a
    name of its own, so that a gateway that is connected stays so."""
    settings = opening.settings
    make = await asyncio.to_thread(library, settings, account=opening.account)
    line = make(settings, opening.secrets["password"], resource="")
    async with line.opened():
        pass
    return Known(name=settings.jid, at=f"xmpp:{settings.jid}")
