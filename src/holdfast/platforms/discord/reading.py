"""Reading: a message or an interaction of Discord in our words."""

import re

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, Source
from holdfast.platforms.discord.places import Place
from holdfast.platforms.discord.wire import COMMAND, SAID, Interaction, Message, User

PLATFORM = "discord"

_MENTION = re.compile(r"<@!?(\d+)>")


class Reader:
    """Reads what one bot is told; keeps nothing but who that is. `roles` are those that stand for
    it alone, and grow as servers are told."""

    def __init__(self, me: User, *, account: str, roles: set[str]) -> None:
        self._me = me
        self._account = account
        self._roles = roles

    def cursor(self, channel_id: str) -> str:
        """Of this very bot: another one under the same name has answered other messages."""
        return f"{self._me.id} in {channel_id}"

    def is_ours(self, message: Message) -> bool:
        return message.author is not None and message.author.id == self._me.id

    def said(self, message: Message, place: Place) -> Inbound | None:
        """None: nobody said it, or we did."""
        if message.author is None or message.type not in SAID or self.is_ours(message):
            return None
        return Inbound(
            source=self._source(place, message.author, _author(message), message),
            event_id=self._event(message.id),
            message_id=message.id,
            text=self._words(message),
            mentioned=self._mentioned(message),
            quoted=self._quoted(message),
            cursor=Cursor(name=self.cursor(message.channel_id), value=message.id),
        )

    def revised(self, message: Message, place: Place) -> Inbound | None:
        """An update tells also of pictures that were found behind a link: then nobody has edited
        anything. It says nothing of how far the channel was read."""
        if message.edited_timestamp is None or (inbound := self.said(message, place)) is None:
            return None
        event_id = self._event(f"{message.id}/{message.edited_timestamp}")
        return _replace(inbound, event_id=event_id)

    def chosen(self, interaction: Interaction, place: Place) -> Inbound | None:
        """A button says what stands on it, and a slash command itself."""
        member = interaction.member
        by = interaction.user or (member.user if member else None)
        data = interaction.data
        words = [f"/{data.name}", *(str(option.value) for option in data.options)]
        text = " ".join(words) if interaction.type == COMMAND else data.custom_id
        if by is None or not text:
            return None
        return Inbound(
            source=self._source(place, by, Author.PERSON, interaction),
            event_id=self._event(interaction.id),
            message_id=interaction.message.id if interaction.message else interaction.id,
            text=text,
            mentioned=True,
        )

    def _event(self, name: str) -> str:
        return f"{self._me.id}/{name}"

    def _source(
        self, place: Place, by: User, author: Author, told: Message | Interaction
    ) -> Source:
        nick = told.member.nick if told.member else None
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=place.chat_id,
            chat_type=place.chat_type,
            thread_id=place.thread_id,
            user_id=by.id,
            user_name=nick or by.name,
            author=author,
        )

    def _mentioned(self, message: Message) -> bool:
        named = any(user.id == self._me.id for user in message.mentions)
        return named or not self._roles.isdisjoint(message.mention_roles)

    def _words(self, message: Message) -> str:
        """People are called by their names, and the bot's own in front is left out, so that
        "@bot /stop" is a command."""
        names = {user.id: user.name or user.id for user in message.mentions}
        text = message.content
        for own in (f"<@{self._me.id}>", f"<@!{self._me.id}>", *map("<@&{}>".format, self._roles)):
            text = text.strip().removeprefix(own)
        text = _MENTION.sub(lambda found: f"@{names.get(found[1], found[1])}", text).strip()
        if message.content and not text:  # called by its name, the bot is meant to look up
            text = f"@{self._me.name}"
        return "\n".join(filter(None, (text, *_told(message))))

    def _quoted(self, message: Message) -> Quote | None:
        replied = message.referenced_message
        if replied is None or replied.author is None:
            return None
        return Quote(
            text=replied.content,
            user_id=replied.author.id,
            user_name=replied.author.name,
            message_id=replied.id,
            ours=self.is_ours(replied),
        )


def _replace(inbound: Inbound, *, event_id: str) -> Inbound:
    """The same message as another event, which moves no cursor."""
    return Inbound(
        source=inbound.source,
        event_id=event_id,
        message_id=inbound.message_id,
        text=inbound.text,
        mentioned=inbound.mentioned,
        quoted=inbound.quoted,
    )


def _author(message: Message) -> Author:
    """A hook writes under any name it likes."""
    is_bot = message.webhook_id is not None or (message.author is not None and message.author.bot)
    return Author.BOT if is_bot else Author.PERSON


def _told(message: Message) -> list[str]:
    """What has no words of its own, in words."""
    forwarded = [each.message.content for each in message.message_snapshots]
    stickers = [f"[Sticker: {each.name}]" for each in message.sticker_items]
    return [*(f"[Forwarded: {text}]" for text in forwarded if text), *stickers]
