"""Reading: what is said on IRC in our words."""

import hashlib
from collections.abc import Callable

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.commands import BY_NAME
from holdfast.core.ports.protocols import NewId
from holdfast.platforms.irc.formatting import plain
from holdfast.platforms.irc.history import mark
from holdfast.platforms.irc.line import Line
from holdfast.platforms.irc.spelling import Spelling
from holdfast.platforms.irc.users import People
from holdfast.platforms.irc.wire import Heard

PLATFORM = "irc"


class Reader:
    """Reads what one line brings; keeps nothing. `network`: whose history it is, where the server
    keeps one; what is said there is found again by when it was said."""

    def __init__(
        self,
        line: Line,
        people: People,
        *,
        account: str,
        network: str | None,
        new_id: NewId,
        is_ours: Callable[[str], bool],
        spelling: Spelling,
    ) -> None:
        self._line = line
        self._people = people
        self._account = account
        self._network = network
        self._new_id = new_id
        self._is_ours = is_ours
        self._spelling = spelling

    def said(self, heard: Heard) -> Inbound | None:
        """None: nobody said anything, or only we did, or it is for some of a channel and an answer
        would be read by all. A NOTICE is never answered, for it may be an answer itself:
        https://modern.ircdocs.horse/#notice-message."""
        if heard.verb != "PRIVMSG" or not heard.nick or self._line.is_me(heard.nick):
            return None
        if self._line.names.is_narrow(heard.param(0)):
            return None
        text = plain(heard.last, nick=heard.nick)
        if text is None or not text.strip():
            return None
        event_id = self._event(heard)
        target = self._line.names.fold(heard.param(0))
        channel = target if self._line.names.is_channel(target) else None
        mentioned = self._line.names.speaks_of(text, self._line.nick)
        return Inbound(
            source=self._source(heard, channel),
            event_id=event_id,
            message_id=heard.tags.get("msgid") or event_id,
            text=self._words(text, alone=channel is None),
            mentioned=channel is not None and mentioned,
            quoted=self._quoted(heard),
            cursor=self._cursor(heard, event_id, channel),
        )

    def cursor_of(self, target: str) -> str:
        return f"{self._network}/{self._line.names.fold(target)}"

    def _source(self, heard: Heard, channel: str | None) -> Source:
        person = self._people.id_of(heard)
        is_bot = "bot" in heard.tags or "draft/bot" in heard.tags
        return Source(
            platform=PLATFORM,
            account=self._account,
            # A chat of two is with a person, and not with whoever has that nick tomorrow.
            chat_id=person if channel is None else self._spelling.of(channel),
            chat_type=ChatType.DM if channel is None else ChatType.GROUP,
            user_id=person,
            user_name=heard.nick,
            author=Author.BOT if is_bot else Author.PERSON,
        )

    def _event(self, heard: Heard) -> str:
        """https://ircv3.net/specs/extensions/message-ids. A server without them that keeps a
        history brings the same words of the same instant again; one without a history brings
        nothing twice."""
        if name := heard.tags.get("msgid"):
            return name
        at = heard.tags.get("time")
        if at is None or self._network is None:
            return self._new_id("irc")
        words = "\0".join((self._network, at, heard.nick, *heard.params))
        return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()

    def _words(self, text: str, *, alone: bool) -> str:
        """Without our nick in front. Clients keep what begins with a slash for themselves, so
        whoever speaks to us may write `!stop`; other bots of a channel have a `!help` too, and are
        not meant by us."""
        words = self._line.names.without(text, self._line.nick).strip()
        if not words:
            return text.strip()  # who is called by name is asked
        first = words[1:].split(maxsplit=1)[0].lower() if words[1:].strip() else ""
        addressed = alone or words != text.strip()
        return f"/{words[1:]}" if words[0] == "!" and addressed and first in BY_NAME else words

    def _quoted(self, heard: Heard) -> Quote | None:
        """https://ircv3.net/specs/client-tags/reply: which message, and not what it says."""
        name = heard.tags.get("+draft/reply") or heard.tags.get("+reply")
        return Quote(message_id=name, ours=self._is_ours(name)) if name else None

    def _cursor(self, heard: Heard, event_id: str, channel: str | None) -> Cursor | None:
        at = heard.tags.get("time")
        if at is None or self._network is None:
            return None
        return Cursor(name=self.cursor_of(channel or heard.nick), value=mark(at, event_id))
