"""Slack's objects, as far as this door reads them: https://docs.slack.dev/reference."""

import msgspec


class Frame(msgspec.Struct, frozen=True):
    """What comes over a socket: an envelope, or a word about the socket itself."""

    type: str = ""
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    reason: str = ""  # of a disconnect
    num_connections: int = 0  # of a hello: how many sockets this app has open


class Outer(msgspec.Struct, frozen=True):
    """What every event comes in."""

    type: str = ""
    event: msgspec.Raw = msgspec.Raw(b"{}")
    challenge: str = ""


class EventKind(msgspec.Struct, frozen=True):
    type: str = ""
    subtype: str | None = None


class Edited(msgspec.Struct, frozen=True):
    ts: str


class File(msgspec.Struct, frozen=True):
    id: str = ""
    name: str | None = None
    size: int | None = None
    mode: str = ""
    file_access: str = ""
    url_private_download: str = ""
    url_private: str = ""


class Message(msgspec.Struct, frozen=True):
    """A message, as an event, in the event of a change, or under a button that was pressed."""

    subtype: str | None = None
    channel: str = ""
    channel_type: str = ""
    user: str | None = None
    bot_id: str | None = None
    username: str | None = None  # of a bot that is no user
    text: str | None = None
    ts: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    edited: Edited | None = None
    files: tuple[File, ...] | None = None
    message: "Message | None" = None  # of a change: how it reads now
    previous_message: "Message | None" = None


class Command(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/interactivity/implementing-slash-commands"""

    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str | None = None


class Presser(msgspec.Struct, frozen=True):
    id: str
    username: str | None = None


class Place(msgspec.Struct, frozen=True):
    id: str


class Action(msgspec.Struct, frozen=True):
    action_ts: str = ""
    value: str | None = None


class Press(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/interaction-payloads/block_actions-payload"""

    type: str
    user: Presser
    channel: Place | None = None
    message: Message | None = None
    actions: tuple[Action, ...] = ()


class Identity(msgspec.Struct, frozen=True):
    """Who we are: https://docs.slack.dev/reference/methods/auth.test"""

    user_id: str
    team_id: str
    bot_id: str = ""
    user: str = ""


class Url(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/apps.connections.open"""

    url: str


class Sent(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/chat.postMessage"""

    ts: str


class Upload(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/files.getUploadURLExternal"""

    upload_url: str
    file_id: str


class FileInfo(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/files.info"""

    file: File


class Profile(msgspec.Struct, frozen=True):
    display_name: str = ""
    real_name: str = ""


class User(msgspec.Struct, frozen=True):
    name: str = ""
    profile: Profile = Profile()


class UserInfo(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/users.info"""

    user: User


class Metadata(msgspec.Struct, frozen=True):
    event_type: str = ""
    event_payload: dict[str, object] = {}


class Block(msgspec.Struct, frozen=True):
    block_id: str = ""


class Kept(msgspec.Struct, frozen=True):
    """A message as the history has it."""

    ts: str
    metadata: Metadata | None = None
    blocks: tuple[Block, ...] = ()


class Following(msgspec.Struct, frozen=True):
    next_cursor: str = ""


class History(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/conversations.history"""

    messages: tuple[Kept, ...] = ()
    response_metadata: Following | None = None


class Done(msgspec.Struct, frozen=True):
    """An answer of which nothing is read."""
