"""Reading: what was heard in a room, in our words."""

import re
from collections.abc import Callable

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, Source
from holdfast.core.people.commands import BY_NAME
from holdfast.platforms.matrix.heard import Heard
from holdfast.platforms.matrix.wire import STICKER, Content, Message

PLATFORM = "matrix"

FILES = frozenset({"m.image", "m.file", "m.audio", "m.video"})
# What older clients put in front of a reply, for those who know no replies.
_FALLBACK = re.compile(r"\A(?:>[^\n]*\n)+\n")
_BANG = re.compile(r"\A!(\w+)(?=\s|\Z)")
_UNREADABLE = (
    "[This message is encrypted, and the key to it has not come. It will be read when the key "
    "comes; until then nobody here knows what it says.]"
)


class Reader:
    """Reads what one account is told; keeps nothing but who that is."""

    def __init__(
        self, user_id: str, *, account: str, chat_of: Callable[[str], str] = lambda room: room
    ) -> None:
        """`chat_of`: the chat that is had in a room, which may have followed another."""
        self._me = user_id
        self._account = account
        self._chat_of = chat_of

    @property
    def cursor(self) -> str:
        """Of this very account: another one has a stream of its own."""
        return f"sync of {self._me}"

    def is_ours(self, message: Message) -> bool:
        return message.sender == self._me

    def said(self, heard: Heard) -> Inbound:
        content = heard.content
        return Inbound(
            source=self._source(heard),
            event_id=heard.message.event_id,
            message_id=heard.message.content.replaces or heard.message.event_id,
            text=self._words(heard),
            mentioned=self._mentioned(content, heard.our_name),
            quoted=self._quoted(heard),
        )

    def unreadable(self, heard: Heard) -> Inbound:
        """It was said, and nobody knows what. The event itself is still to come."""
        return Inbound(
            source=self._source(heard),
            event_id=f"{heard.message.event_id}/sealed",
            message_id=heard.message.event_id,
            text=_UNREADABLE,
        )

    def _source(self, heard: Heard) -> Source:
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=self._chat_of(heard.room_id),
            chat_type=heard.chat_type,
            thread_id=heard.relating.thread,
            user_id=heard.message.sender,
            user_name=heard.user_name or heard.message.sender,
            author=self._author(heard.message),
        )

    def _author(self, message: Message) -> Author:
        """https://spec.matrix.org/latest/client-server-api/#mnotice: programs say what they say by
        themselves as notices, so that no other program answers them."""
        if self.is_ours(message):
            return Author.OURSELVES
        return Author.BOT if message.content.msgtype == "m.notice" else Author.PERSON

    def _mentioned(self, content: Content, our_name: str | None) -> bool:
        """https://spec.matrix.org/latest/client-server-api/#user-and-room-mentions: a client that
        says who is meant is believed; others write a link, or a name in front."""
        if self._called(content.body, our_name) != content.body:
            return True
        if content.mentions is not None:
            return self._me in content.mentions.user_ids
        return self._me in content.formatted_body or self._me in content.body

    def _called(self, body: str, our_name: str | None) -> str:
        """Without our name in front, so that "bot: /stop" is a command."""
        text = body.lstrip()
        for name in (self._me, our_name or self._me):
            for called in (f"@{name}", name):
                rest = text[len(called) :]
                if text.casefold().startswith(called.casefold()) and _ends_a_name(rest):
                    return rest.lstrip(":, ").strip()
        return body

    def _words(self, heard: Heard) -> str:
        content = heard.content
        body = _FALLBACK.sub("", content.body) if heard.relating.answered else content.body
        if heard.message.type == STICKER:
            return f"[Sticker: {content.body}]"
        if content.msgtype in FILES:
            return body if content.filename and content.filename != content.body else ""
        if content.msgtype == "m.location":
            return f"[Location: {content.geo_uri} {content.body}]"
        text = self._called(body, heard.our_name)
        if content.msgtype == "m.emote":
            return f"* {heard.user_name or heard.message.sender} {text}"
        # Called by its name alone, the agent is meant to look up.
        return _commanding(text) if text or not body else body

    def _quoted(self, heard: Heard) -> Quote | None:
        name = heard.relating.answered
        if name is None:
            return None
        answered = heard.answered
        if answered is None:
            return Quote(message_id=name)
        said = answered.content.new_content or answered.content
        body = _FALLBACK.sub("", said.body) if said.answered else said.body
        return Quote(
            text=body,
            user_id=answered.sender,
            user_name=heard.answered_name,
            message_id=name,
            ours=self.is_ours(answered),
        )


def _ends_a_name(rest: str) -> bool:
    return not rest or not (rest[0].isalnum() or rest[0] in "_-.")


def _commanding(text: str) -> str:
    """Clients keep lines with a slash in front for themselves, so that a command may also be given
    with an exclamation mark."""
    found = _BANG.match(text)
    return f"/{text[1:]}" if found and found[1].lower() in BY_NAME else text
