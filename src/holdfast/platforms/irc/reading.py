"""Reading: what is said on IRC in our words."""

import hashlib
from collections.abc import Callable

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.core.ports.protocols import IdFactory
from holdfast.platforms.irc.formatting import strip_formatting
from holdfast.platforms.irc.history import format_position
from holdfast.platforms.irc.line import IrcClient
from holdfast.platforms.irc.spelling import ChannelIds
from holdfast.platforms.irc.users import UserDirectory
from holdfast.platforms.irc.wire import IrcMessage

PLATFORM = "irc"


class IrcParser:
    """Reads what one line brings; keeps nothing. `network`: whose history it is, where the server
    keeps one; what is said there is found again by when it was said."""

    def __init__(
        self,
        client: IrcClient,
        users: UserDirectory,
        *,
        account: str,
        network: str | None,
        new_id: IdFactory,
        is_ours: Callable[[str], bool],
        channel_ids: ChannelIds,
    ) -> None:
        self._client = client
        self._users = users
        self._account = account
        self._network = network
        self._new_id = new_id
        self._is_ours = is_ours
        self._channel_ids = channel_ids

    def parse(self, message: IrcMessage) -> Inbound | None:
        """None: nobody said anything, or only we did, or it is for some of a channel and an answer
        would be read by all. A NOTICE is never answered, for it may be an answer itself:
        https://modern.ircdocs.horse/#notice-message."""
        if message.command != "PRIVMSG" or not message.nick or self._client.is_me(message.nick):
            return None
        if self._client.names.is_status_message(message.param(0)):
            return None
        text = strip_formatting(message.trailing, nick=message.nick)
        if text is None or not text.strip():
            return None
        event_id = self._event_id(message)
        target = self._client.names.fold(message.param(0))
        channel = target if self._client.names.is_channel(target) else None
        mentioned = self._client.names.mentions(text, self._client.nick)
        return Inbound(
            source=self._source(message, channel),
            event_id=event_id,
            message_id=message.tags.get("msgid") or event_id,
            text=self._message_text(text, is_direct=channel is None),
            mentioned=channel is not None and mentioned,
            quoted=self._quote(message),
            cursor=self._cursor(message, event_id, channel),
        )

    def cursor_name(self, target: str) -> str:
        return f"{self._network}/{self._client.names.fold(target)}"

    def _source(self, message: IrcMessage, channel: str | None) -> Source:
        person = self._users.user_id_of(message)
        is_bot = "bot" in message.tags or "draft/bot" in message.tags
        return Source(
            platform=PLATFORM,
            account=self._account,
            # A chat of two is with a person, and not with whoever has that nick tomorrow.
            chat_id=person if channel is None else self._channel_ids.normalise(channel),
            chat_type=ChatType.DM if channel is None else ChatType.GROUP,
            user_id=person,
            user_name=message.nick,
            author=Author.BOT if is_bot else Author.PERSON,
        )

    def _event_id(self, message: IrcMessage) -> str:
        """https://ircv3.net/specs/extensions/message-ids. A server without them that keeps a
        history brings the same words of the same instant again; one without a history brings
        nothing twice."""
        if name := message.tags.get("msgid"):
            return name
        at = message.tags.get("time")
        if at is None or self._network is None:
            return self._new_id("irc")
        words = "\0".join((self._network, at, message.nick, *message.params))
        return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()

    def _message_text(self, text: str, *, is_direct: bool) -> str:
        """Without our nick in front. Clients keep what begins with a slash for themselves, so
        whoever speaks to us may write `!stop`; other bots of a channel have a `!help` too, and are
        not meant by us."""
        words = self._client.names.strip_nick(text, self._client.nick).strip()
        if not words:
            return text.strip()  # who is called by name is asked
        first = words[1:].split(maxsplit=1)[0].lower() if words[1:].strip() else ""
        addressed = is_direct or words != text.strip()
        return (
            f"/{words[1:]}"
            if words[0] == "!" and addressed and first in COMMANDS_BY_NAME
            else words
        )

    def _quote(self, message: IrcMessage) -> Quote | None:
        """https://ircv3.net/specs/client-tags/reply: which message, and not what it says."""
        name = message.tags.get("+draft/reply") or message.tags.get("+reply")
        return Quote(message_id=name, ours=self._is_ours(name)) if name else None

    def _cursor(self, message: IrcMessage, event_id: str, channel: str | None) -> Cursor | None:
        at = message.tags.get("time")
        if at is None or self._network is None:
            return None
        return Cursor(
            name=self.cursor_name(channel or message.nick), value=format_position(at, event_id)
        )
