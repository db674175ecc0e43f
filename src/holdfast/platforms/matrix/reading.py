"""Reading: what was heard in a room, in our words."""

import re
from collections.abc import Callable

from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, Source
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.platforms.matrix.heard import MessageContext
from holdfast.platforms.matrix.wire import STICKER, MatrixContent, MatrixMessage

PLATFORM = "matrix"

FILE_MESSAGE_TYPES = frozenset({"m.image", "m.file", "m.audio", "m.video"})
# What older clients put in front of a reply, for those who know no replies.
_REPLY_FALLBACK = re.compile(r"\A(?:>[^\n]*\n)+\n")
_BANG_COMMAND = re.compile(r"\A!(\w+)(?=\s|\Z)")
_UNDECRYPTABLE_TEXT = (
    "[This message is encrypted, and the key to it has not come. It will be read when the key "
    "comes; until then nobody here knows what it says.]"
)


class MatrixParser:
    """Reads what one account is told; keeps nothing but who that is."""

    def __init__(
        self, user_id: str, *, account: str, chat_of: Callable[[str], str] = lambda room: room
    ) -> None:
        """`chat_of`: the chat that is had in a room, which may have followed another."""
        self._user_id = user_id
        self._account = account
        self._chat_of = chat_of

    @property
    def cursor_name(self) -> str:
        """Of this very account: another one has a stream of its own."""
        return f"sync of {self._user_id}"

    def is_ours(self, message: MatrixMessage) -> bool:
        return message.sender == self._user_id

    def parse(self, context: MessageContext) -> Inbound:
        content = context.current_content
        return Inbound(
            source=self._source(context),
            event_id=context.message.event_id,
            message_id=context.message.content.replaces or context.message.event_id,
            text=self._text(context),
            mentioned=self._is_mentioned(content, context.our_name),
            quoted=self._quote(context),
        )

    def parse_undecryptable(self, context: MessageContext) -> Inbound:
        """It was said, and nobody knows what. The event itself is still to come."""
        return Inbound(
            source=self._source(context),
            event_id=f"{context.message.event_id}/sealed",
            message_id=context.message.event_id,
            text=_UNDECRYPTABLE_TEXT,
        )

    def _source(self, context: MessageContext) -> Source:
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=self._chat_of(context.room_id),
            chat_type=context.chat_type,
            thread_id=context.relation_content.thread_root,
            user_id=context.message.sender,
            user_name=context.user_name or context.message.sender,
            author=self._author(context.message),
        )

    def _author(self, message: MatrixMessage) -> Author:
        """https://spec.matrix.org/latest/client-server-api/#mnotice: programs say what they say by
        themselves as notices, so that no other program answers them."""
        if self.is_ours(message):
            return Author.SELF
        return Author.BOT if message.content.msgtype == "m.notice" else Author.PERSON

    def _is_mentioned(self, content: MatrixContent, our_name: str | None) -> bool:
        """https://spec.matrix.org/latest/client-server-api/#user-and-room-mentions: a client that
        says who is meant is believed; others write a link, or a name in front."""
        if self._strip_own_name(content.body, our_name) != content.body:
            return True
        if content.mentions is not None:
            return self._user_id in content.mentions.user_ids
        return self._user_id in content.formatted_body or self._user_id in content.body

    def _strip_own_name(self, body: str, our_name: str | None) -> str:
        """Without our name in front, so that "bot: /stop" is a command."""
        text = body.lstrip()
        for name in (self._user_id, our_name or self._user_id):
            for called in (f"@{name}", name):
                rest = text[len(called) :]
                if text.casefold().startswith(called.casefold()) and _ends_name(rest):
                    return rest.lstrip(":, ").strip()
        return body

    def _text(self, context: MessageContext) -> str:
        content = context.current_content
        body = (
            _REPLY_FALLBACK.sub("", content.body)
            if context.relation_content.reply_to
            else content.body
        )
        if context.message.type == STICKER:
            return f"[Sticker: {content.body}]"
        if content.msgtype in FILE_MESSAGE_TYPES:
            return body if content.filename and content.filename != content.body else ""
        if content.msgtype == "m.location":
            return f"[Location: {content.geo_uri} {content.body}]"
        text = self._strip_own_name(body, context.our_name)
        if content.msgtype == "m.emote":
            return f"* {context.user_name or context.message.sender} {text}"
        # Called by its name alone, the agent is meant to look up.
        return _as_command(text) if text or not body else body

    def _quote(self, context: MessageContext) -> Quote | None:
        name = context.relation_content.reply_to
        if name is None:
            return None
        answered = context.reply_target
        if answered is None:
            return Quote(message_id=name)
        said = answered.content.new_content or answered.content
        body = _REPLY_FALLBACK.sub("", said.body) if said.reply_to else said.body
        return Quote(
            text=body,
            user_id=answered.sender,
            user_name=context.reply_target_name,
            message_id=name,
            ours=self.is_ours(answered),
        )


def _ends_name(rest: str) -> bool:
    return not rest or not (rest[0].isalnum() or rest[0] in "_-.")


def _as_command(text: str) -> str:
    """Clients keep lines with a slash in front for themselves, so that a command may also be given
    with an exclamation mark."""
    found = _BANG_COMMAND.match(text)
    return f"/{text[1:]}" if found and found[1].lower() in COMMANDS_BY_NAME else text
