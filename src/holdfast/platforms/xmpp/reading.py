"""Reading: a message of a chat or a room in our words."""

import re

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.ports.protocols import NewId
from holdfast.platforms.xmpp.archive import Position
from holdfast.platforms.xmpp.rooms import Room
from holdfast.platforms.xmpp.stanza import Said, bare, resource_of

PLATFORM = "xmpp"


class Reader:
    """Reads what one account is told; keeps nothing but who that is."""

    def __init__(self, me: str, *, account: str, new_id: NewId) -> None:
        self.me = me
        self._account = account
        self._new_id = new_id

    def cursor(self, room: str | None = None) -> str:
        """Of this very account: another one under the same name has other archives."""
        return self.me if room is None else f"{self.me} in {room}"

    def in_chat(self, said: Said, position: Position | None) -> Inbound | None:
        """None: nobody said it, or we did."""
        writer = bare(said.sender)
        if said.kind not in ("chat", "normal") or writer == self.me or not _says(said):
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
        return self._inbound(said, source, position, said.body.strip())

    def in_room(
        self, said: Said, position: Position | None, room: Room, *, now: bool
    ) -> Inbound | None:
        if said.kind != "groupchat" or not resource_of(said.sender) or not _says(said):
            return None
        if room.is_ours(said) or room.writer(said, now=now) == self.me:
            return None
        source = Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=room.address,
            chat_type=ChatType.GROUP,
            user_id=room.writer(said, now=now),
            user_name=resource_of(said.sender),
        )
        named, text = addressed(said.body, room.nick)
        named = named or f"{room.address}/{room.nick}" in said.named
        return self._inbound(said, source, position, text, mentioned=named, room=room)

    def _inbound(
        self,
        said: Said,
        source: Source,
        position: Position | None,
        text: str,
        *,
        mentioned: bool = False,
        room: Room | None = None,
    ) -> Inbound:
        place = None if room is None else room.address
        cursor = None
        if position is not None:
            cursor = Cursor(name=self.cursor(place), value=str(position))
        return Inbound(
            source=source,
            event_id=self._event(said, position, place),
            message_id=said.corrects or said.id or self._new_id("xmpp"),
            text=text.replace(said.url, "").strip() if said.url else text,
            mentioned=mentioned,
            quoted=self._quoted(said, room),
            cursor=cursor,
        )

    def _event(self, said: Said, position: Position | None, room: str | None) -> str:
        """Where nothing is archived, a message is known by what its writer calls it."""
        if position is not None:
            return f"{self.cursor(room)}/{position.id}"
        return f"{self.cursor(room)}/{said.sender}/{said.id or self._new_id('xmpp')}"

    def _quoted(self, said: Said, room: Room | None) -> Quote | None:
        reply = said.reply
        if reply is None:
            return None
        if room is None:
            ours = bare(reply.to) == self.me
            user_id = bare(reply.to)
        else:
            ours = bool(room.nick) and reply.to == f"{room.address}/{room.nick}"
            user_id = reply.to
        return Quote(
            text=reply.quoted,
            user_id=user_id or None,
            user_name=(resource_of(reply.to) or bare(reply.to).partition("@")[0]) or None,
            message_id=reply.id or None,
            ours=ours,
        )


def addressed(body: str, nick: str) -> tuple[bool, str]:
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


def _says(said: Said) -> bool:
    return bool(said.body.strip() or said.url)
