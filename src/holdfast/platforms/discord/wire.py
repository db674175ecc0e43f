"""Discord's objects, as far as this door reads them: https://discord.com/developers/docs."""

from datetime import datetime

import msgspec

THREAD_TYPES = frozenset({10, 11, 12})  # of an announcement channel, public, private
TYPES_WITHOUT_MESSAGES = frozenset(
    {4, 14, 15, 16}
)  # categories, directories, and forums, of threads
USER_MESSAGE_TYPES = frozenset(
    {0, 19}
)  # types of messages that somebody wrote: all others tell of an event
COMMAND_INTERACTION, COMPONENT_INTERACTION = 2, 3  # types of interactions


class DiscordUser(msgspec.Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str | None:
        return self.global_name or self.username or None


class DiscordMember(msgspec.Struct, frozen=True):
    user: DiscordUser | None = None
    nick: str | None = None


class DiscordFile(msgspec.Struct, frozen=True):
    filename: str
    url: str
    size: int | None = None


class DiscordSticker(msgspec.Struct, frozen=True):
    name: str


class ForwardedMessage(msgspec.Struct, frozen=True):
    content: str = ""
    attachments: tuple[DiscordFile, ...] = ()


class MessageSnapshot(msgspec.Struct, frozen=True):
    message: ForwardedMessage


class DiscordMessage(msgspec.Struct, frozen=True):
    id: str
    channel_id: str
    author: DiscordUser | None = None  # left out where an update tells only what has changed
    content: str = ""
    type: int = 0
    guild_id: str | None = None  # told with an event; in the history of a channel it is left out
    edited_timestamp: str | None = None
    member: DiscordMember | None = None
    mentions: tuple[DiscordUser, ...] = ()
    mention_roles: tuple[str, ...] = ()
    attachments: tuple[DiscordFile, ...] = ()
    sticker_items: tuple[DiscordSticker, ...] = ()
    message_snapshots: tuple[MessageSnapshot, ...] = ()
    referenced_message: "DiscordMessage | None" = None
    webhook_id: str | None = None


class DiscordMessageId(msgspec.Struct, frozen=True):
    """A message of which nothing but its number need make sense."""

    id: str


class DiscordChannel(msgspec.Struct, frozen=True):
    id: str
    type: int
    parent_id: str | None = None
    guild_id: str | None = None
    last_message_id: str | None = None


class RoleTags(msgspec.Struct, frozen=True):
    bot_id: str | None = None


class DiscordRole(msgspec.Struct, frozen=True):
    id: str
    tags: RoleTags = RoleTags()


class DiscordGuild(msgspec.Struct, frozen=True):
    id: str
    channels: tuple[DiscordChannel, ...] = ()
    threads: tuple[DiscordChannel, ...] = ()
    roles: tuple[DiscordRole, ...] = ()
    joined_at: datetime | None = None  # by the bot
    unavailable: bool = False


class ReadyEvent(msgspec.Struct, frozen=True):
    guilds: tuple[DiscordGuild, ...] = ()


class ThreadList(msgspec.Struct, frozen=True):
    threads: tuple[DiscordChannel, ...] = ()


class CommandOption(msgspec.Struct, frozen=True):
    value: str | int | float | bool = ""


class InteractionData(msgspec.Struct, frozen=True):
    """Which command was given, with what; or which button was pressed."""

    name: str = ""
    options: tuple[CommandOption, ...] = ()
    custom_id: str = ""


class Interaction(msgspec.Struct, frozen=True):
    id: str
    type: int
    token: str
    channel_id: str | None = None
    channel: DiscordChannel | None = None
    guild_id: str | None = None
    member: DiscordMember | None = None
    user: DiscordUser | None = None
    data: InteractionData = InteractionData()
    message: DiscordMessage | None = None


class DiscordFrame(msgspec.Struct, frozen=True):
    """What comes over the gateway: `t` names the event, `d` is what it tells."""

    op: int
    t: str | None = None
    d: msgspec.Raw = msgspec.Raw(b"null")


class DiscordSentMessage(msgspec.Struct, frozen=True):
    id: str


class DiscordError(msgspec.Struct, frozen=True):
    message: str = ""
    code: int = 0
    retry_after: float | None = None
    is_global: bool = msgspec.field(default=False, name="global")
