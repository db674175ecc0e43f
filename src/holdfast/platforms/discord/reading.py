"""Reading: a message or an interaction of Discord in our words."""

import re

from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, Source
from holdfast.platforms.discord.places import ChannelLocation
from holdfast.platforms.discord.wire import (
    COMMAND_INTERACTION,
    USER_MESSAGE_TYPES,
    DiscordMessage,
    DiscordUser,
    Interaction,
)

PLATFORM = "discord"

_MENTION = re.compile(r"<@!?(\d+)>")


class DiscordParser:
    """Reads what one bot is told; keeps nothing but who that is. `roles` are those that stand for
    it alone, and grow as servers are told."""

    def __init__(self, me: DiscordUser, *, account: str, roles: set[str]) -> None:
        self._me = me
        self._account = account
        self._roles = roles

    def cursor(self, channel_id: str) -> str:
        """Of this very bot: another one under the same name has answered other messages."""
        return f"{self._me.id} in {channel_id}"

    def is_ours(self, message: DiscordMessage) -> bool:
        return message.author is not None and message.author.id == self._me.id

    def from_message(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """None: nobody said it, or we did."""
        if (
            message.author is None
            or message.type not in USER_MESSAGE_TYPES
            or self.is_ours(message)
        ):
            return None
        return Inbound(
            source=self._source(location, message.author, _author_kind(message), message),
            event_id=self._event_id(message.id),
            message_id=message.id,
            text=self._text(message),
            mentioned=self._is_mentioned(message),
            quoted=self._quote(message),
            cursor=Cursor(name=self.cursor(message.channel_id), value=message.id),
        )

    def from_edit(self, message: DiscordMessage, location: ChannelLocation) -> Inbound | None:
        """An update tells also of pictures that were found behind a link: then nobody has edited
        anything. It says nothing of how far the channel was read."""
        if (
            message.edited_timestamp is None
            or (inbound := self.from_message(message, location)) is None
        ):
            return None
        event_id = self._event_id(f"{message.id}/{message.edited_timestamp}")
        return _without_cursor(inbound, event_id=event_id)

    def from_interaction(
        self, interaction: Interaction, location: ChannelLocation
    ) -> Inbound | None:
        """A button says what stands on it, and a slash command itself."""
        member = interaction.member
        by = interaction.user or (member.user if member else None)
        data = interaction.data
        words = [f"/{data.name}", *(str(option.value) for option in data.options)]
        text = " ".join(words) if interaction.type == COMMAND_INTERACTION else data.custom_id
        if by is None or not text:
            return None
        return Inbound(
            source=self._source(location, by, Author.PERSON, interaction),
            event_id=self._event_id(interaction.id),
            message_id=interaction.message.id if interaction.message else interaction.id,
            text=text,
            mentioned=True,
        )

    def _event_id(self, name: str) -> str:
        return f"{self._me.id}/{name}"

    def _source(
        self,
        location: ChannelLocation,
        by: DiscordUser,
        author: Author,
        event: DiscordMessage | Interaction,
    ) -> Source:
        nick = event.member.nick if event.member else None
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=location.chat_id,
            chat_type=location.chat_type,
            thread_id=location.thread_id,
            user_id=by.id,
            user_name=nick or by.name,
            author=author,
        )

    def _is_mentioned(self, message: DiscordMessage) -> bool:
        named = any(user.id == self._me.id for user in message.mentions)
        return named or not self._roles.isdisjoint(message.mention_roles)

    def _text(self, message: DiscordMessage) -> str:
        """People are called by their names, and the bot's own in front is left out, so that
        "@bot /stop" is a command."""
        names = {user.id: user.name or user.id for user in message.mentions}
        text = message.content
        for own in (f"<@{self._me.id}>", f"<@!{self._me.id}>", *map("<@&{}>".format, self._roles)):
            text = text.strip().removeprefix(own)
        text = _MENTION.sub(lambda found: f"@{names.get(found[1], found[1])}", text).strip()
        if message.content and not text:  # called by its name, the bot is meant to look up
            text = f"@{self._me.name}"
        return "\n".join(filter(None, (text, *_describe_content(message))))

    def _quote(self, message: DiscordMessage) -> Quote | None:
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


def _without_cursor(inbound: Inbound, *, event_id: str) -> Inbound:
    """The same message as another event, which moves no cursor."""
    return Inbound(
        source=inbound.source,
        event_id=event_id,
        message_id=inbound.message_id,
        text=inbound.text,
        mentioned=inbound.mentioned,
        quoted=inbound.quoted,
    )


def _author_kind(message: DiscordMessage) -> Author:
    """A hook writes under any name it likes."""
    is_bot = message.webhook_id is not None or (message.author is not None and message.author.bot)
    return Author.BOT if is_bot else Author.PERSON


def _describe_content(message: DiscordMessage) -> list[str]:
    """What has no words of its own, in words."""
    forwarded = [each.message.content for each in message.message_snapshots]
    stickers = [f"[Sticker: {each.name}]" for each in message.sticker_items]
    return [*(f"[Forwarded: {text}]" for text in forwarded if text), *stickers]
