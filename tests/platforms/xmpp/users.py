"""Users of an XMPP server, each a client built on the vendor's library."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from slixmpp import ClientXMPP
from tests.platforms.xmpp.prosody import Prosody

BOT, ANN, BOB = "bot@localhost", "ann@localhost", "bob@localhost"
_PLUGINS = (
    "xep_0045",  # rooms
    "xep_0066",  # links to files
    "xep_0085",  # who writes
    "xep_0199",  # pings
    "xep_0308",  # corrections
    "xep_0359",  # ids in archives
    "xep_0363",  # uploads
    "xep_0444",  # reactions
    "xep_0461",  # replies
)


class XmppUser(ClientXMPP):
    """A user whose client uses the library's own plugins, and none of our code."""

    def __init__(self, jid: str, password: str) -> None:
        # Certificates are not verified, and loading the trusted ones takes long.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        super().__init__(f"{jid}/phone", password, ssl_context=context, sasl_mech="PLAIN")
        self.enable_direct_tls = self.enable_starttls = False
        self.enable_plaintext = True
        self.plugin["feature_mechanisms"].config.update(
            {"unencrypted_scram": True, "unencrypted_plain": True}
        )
        for plugin in _PLUGINS:
            self.register_plugin(plugin)
        self.nick = ""
        self.read: list[Any] = []  # messages, as they came
        self.reactions: list[Any] = []  # reactions by others
        self.add_event_handler("reactions", self.reactions.append)
        self.add_event_handler("message", self._on_message)
        self.add_event_handler("groupchat_message", self._on_groupchat_message)
        self.add_event_handler("chatstate_composing", self.read.append)

    def _on_message(self, message: Any) -> None:
        if message["type"] != "groupchat":
            self.read.append(message)

    def _on_groupchat_message(self, message: Any) -> None:
        if message["from"].resource != self.nick:
            self.read.append(message)

    def write(self, body: str, *, to: str = BOT, language: str = "", **more: Any) -> str:
        """The id of the message. Without a language, it has the one of the stream."""
        kind = "groupchat" if "@rooms" in to or "@unkept" in to else "chat"
        message = self.make_message(mto=to, mbody=body, mtype=kind)
        if language:
            message["lang"] = language
        for name, fields in more.items():
            for key, value in fields.items():
                message[name][key] = value
        message.send()
        return str(message["id"])

    async def settle(self) -> None:
        """Returns when the server has taken all that was written: it answers behind that."""
        await self.plugin["xep_0199"].ping(self.boundjid.domain, timeout=30)

    def texts(self) -> list[str]:
        """The visible texts, with corrections applied."""
        shown: dict[str, str] = {}
        for each in self.read:
            if each["body"]:
                shown[each["replace"]["id"] or each["id"]] = each["body"]
        return list(shown.values())

    async def join_room(self, room: str, nick: str = "ann") -> None:
        await self.plugin["xep_0045"].join_muc_wait(room, nick, maxstanzas=0)
        self.nick = nick
        await self.unlock_room(room)

    async def unlock_room(self, room: str) -> None:
        """A room that its first visitor has made is open when they say so."""
        form = self.plugin["xep_0004"].make_form(ftype="submit")
        try:
            await self.plugin["xep_0045"].set_room_config(room, form)
        except Exception as error:  # noqa: BLE001 - the library's; another user has created the room
            assert "forbidden" in str(error)


@asynccontextmanager
async def online(server: Prosody, jid: str) -> AsyncIterator[XmppUser]:
    user = XmppUser(jid, f"pw-{jid[:3]}")
    negotiated: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    user.add_event_handler("stream_negotiated", lambda _: negotiated.set_result(None))
    await user.connect("127.0.0.1", server.port)
    async with asyncio.timeout(10):
        await negotiated
    user.send_presence()
    try:
        yield user
    finally:
        await user.disconnect(wait=1.0, ignore_send_queue=True)
        for name in list(user.scheduled_events):
            user.cancel_schedule(name)
        assert user._run_out_filters is not None
        user._run_out_filters.cancel()
