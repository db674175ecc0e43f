"""Discord's objects, as far as this door reads them: https://discord.com/developers/docs."""

from datetime import datetime

import msgspec

THREADS = frozenset({10, 11, 12})  # of an announcement channel, public, private
WITHOUT_MESSAGES = frozenset({4, 14, 15, 16})  # categories, directories, and forums, of threads
SAID = frozenset({0, 19})  # types of messages that somebody wrote: all others tell of an event
COMMAND, COMPONENT = 2, 3  # types of interactions


class User(msgspec.Struct, frozen=True):
    id: str
    username: str = ""
    global_name: str | None = None
    bot: bool = False

    @property
    def name(self) -> str | None:
        return self.global_name or self.username or None


class Member(msgspec.Struct, frozen=True):
    user: User | None = None
    nick: str | None = None


class File(msgspec.Struct, frozen=True):
    filename: str
    url: str
    size: int | None = None


class Sticker(msgspec.Struct, frozen=True):
    name: str


class Forwarded(msgspec.Struct, frozen=True):
    content: str = ""
    attachments: tuple[File, ...] = ()


class Snapshot(msgspec.Struct, frozen=True):
    message: Forwarded


class Message(msgspec.Struct, frozen=True):
    id: str
    channel_id: str
    author: User | None = None  # left out where an update tells only what has changed
    content: str = ""
    type: int = 0
    guild_id: str | None = None  # told with an event; in the history of a channel it is left out
    edited_timestamp: str | None = None
    member: Member | None = None
    mentions: tuple[User, ...] = ()
    mention_roles: tuple[str, ...] = ()
    attachments: tuple[File, ...] = ()
    sticker_items: tuple[Sticker, ...] = ()
    message_snapshots: tuple[Snapshot, ...] = ()
    referenced_message: "Message | None" = None
    webhook_id: str | None = None


class Numbered(msgspec.Struct, frozen=True):
    """A message of which nothing but its number need make sense."""

    id: str


class Channel(msgspec.Struct, frozen=True):
    id: str
    type: int
    parent_id: str | None = None
    guild_id: str | None = None
    last_message_id: str | None = None


class RoleTags(msgspec.Struct, frozen=True):
    bot_id: str | None = None


class Role(msgspec.Struct, frozen=True):
    id: str
    tags: RoleTags = RoleTags()


class Guild(msgspec.Struct, frozen=True):
    id: str
    channels: tuple[Channel, ...] = ()
    threads: tuple[Channel, ...] = ()
    roles: tuple[Role, ...] = ()
    joined_at: datetime | None = None  # by the bot
    unavailable: bool = False


class Ready(msgspec.Struct, frozen=True):
    guilds: tuple[Guild, ...] = ()


class ThreadList(msgspec.Struct, frozen=True):
    threads: tuple[Channel, ...] = ()


class Option(msgspec.Struct, frozen=True):
    value: str | int | float | bool = ""


class Chosen(msgspec.Struct, frozen=True):
    """Which command was given, with what; or which button was pressed."""

    name: str = ""
    options: tuple[Option, ...] = ()
    custom_id: str = ""


class Interaction(msgspec.Struct, frozen=True):
    id: str
    type: int
    token: str
    channel_id: str | None = None
    channel: Channel | None = None
    guild_id: str | None = None
    member: Member | None = None
    user: User | None = None
    data: Chosen = Chosen()
    message: Message | None = None


class Frame(msgspec.Struct, frozen=True):
    """What comes over the gateway: `t` names the event, `d` is what it tells."""

    op: int
    t: str | None = None
    d: msgspec.Raw = msgspec.Raw(b"null")


class SentMessage(msgspec.Struct, frozen=True):
    id: str


class Error(msgspec.Struct, frozen=True):
    message: str = ""
    code: int = 0
    retry_after: float | None = None
    whole: bool = msgspec.field(default=False, name="global")
