"""Reading: a message of a chat or a room in our words."""

import re

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.ports.protocols import IdFactory
from holdfast.platforms.xmpp.archive import ArchivePosition
from holdfast.platforms.xmpp.rooms import XmppRoom
from holdfast.platforms.xmpp.stanza import XmppMessage, bare_jid, resource_of

PLATFORM = "xmpp"


class XmppParser:
    """Reads what one account is told; keeps nothing but who that is."""

    def __init__(self, own_jid: str, *, account: str, new_id: IdFactory) -> None:
        self.own_jid = own_jid
        self._account = account
        self._new_id = new_id

    def cursor_name(self, room: str | None = None) -> str:
        """Of this very account: another one under the same name has other archives."""
        return self.own_jid if room is None else f"{self.own_jid} in {room}"

    def parse_chat_message(
        self, message: XmppMessage, position: ArchivePosition | None
    ) -> Inbound | None:
        """None: nobody said it, or we did."""
        writer = bare_jid(message.sender)
        if (
            message.kind not in ("chat", "normal")
            or writer == self.own_jid
            or not _has_content(message)
        ):
            return None
        # What comes from an address without a name is of a server: a notice to everybody there.
        author = Author.PERSON if "@" in writer else Author.BOT
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=writer,
            user_id=writer,
            user_name=writer.partition("@")[0],
            author=author,
        )
        return self._inbound(message, source, position, message.body.strip())

    def parse_room_message(
        self,
        message: XmppMessage,
        position: ArchivePosition | None,
        room: XmppRoom,
        *,
        is_live: bool,
    ) -> Inbound | None:
        if (
            message.kind != "groupchat"
            or not resource_of(message.sender)
            or not _has_content(message)
        ):
            return None
        if room.is_ours(message) or room.author_jid(message, is_live=is_live) == self.own_jid:
            return None
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=room.address,
            chat_type=ChatType.GROUP,
            user_id=room.author_jid(message, is_live=is_live),
            user_name=resource_of(message.sender),
        )
        named, text = split_mention(message.body, room.nick)
        named = named or f"{room.address}/{room.nick}" in message.mentions
        return self._inbound(message, source, position, text, mentioned=named, room=room)

    def _inbound(
        self,
        message: XmppMessage,
        source: Source,
        position: ArchivePosition | None,
        text: str,
        *,
        mentioned: bool = False,
        room: XmppRoom | None = None,
    ) -> Inbound:
        place = None if room is None else room.address
        cursor = None
        if position is not None:
            cursor = Cursor(name=self.cursor_name(place), value=str(position))
        return Inbound(
            source=source,
            event_id=self._event_id(message, position, place),
            message_id=message.corrects or message.id or self._new_id("xmpp"),
            text=text.replace(message.url, "").strip() if message.url else text,
            mentioned=mentioned,
            quoted=self._quote(message, room),
            cursor=cursor,
        )

    def _event_id(
        self, message: XmppMessage, position: ArchivePosition | None, room: str | None
    ) -> str:
        """Where nothing is archived, a message is known by what its writer calls it."""
        if position is not None:
            return f"{self.cursor_name(room)}/{position.id}"
        return f"{self.cursor_name(room)}/{message.sender}/{message.id or self._new_id('xmpp')}"

    def _quote(self, message: XmppMessage, room: XmppRoom | None) -> Quote | None:
        reply = message.reply
        if reply is None:
            return None
        if room is None:
            ours = bare_jid(reply.to) == self.own_jid
            user_id = bare_jid(reply.to)
        else:
            ours = bool(room.nick) and reply.to == f"{room.address}/{room.nick}"
            user_id = reply.to
        return Quote(
            text=reply.quoted,
            user_id=user_id or None,
            user_name=(resource_of(reply.to) or bare_jid(reply.to).partition("@")[0]) or None,
            message_id=reply.id or None,
            ours=ours,
        )


def split_mention(body: str, nick: str) -> tuple[bool, str]:
    """Whether it names somebody of that name, and the text without the name in front, so that
    "bot: /stop" is a command. Clients write "bot: …", "bot, …" or "@bot …"."""
    text = body.strip()
    if not nick:
        return False, text
    name = re.escape(nick)
    front = re.match(rf"(?:@{name}\b[:,]?|{name}[:,])\s*", text, re.IGNORECASE)
    if front is not None:
        return True, text[front.end() :] or text
    alone = text.casefold() == nick.casefold()
    return alone or re.search(rf"(?<!\w)@{name}(?!\w)", text, re.IGNORECASE) is not None, text


def _has_content(message: XmppMessage) -> bool:
    return bool(message.body.strip() or message.url)
