"""Slack's objects, as far as this door reads them: https://docs.slack.dev/reference."""

import msgspec


class SocketFrame(msgspec.Struct, frozen=True):
    """What comes over a socket: an envelope, or a word about the socket itself."""

    type: str = ""
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    reason: str = ""  # of a disconnect
    num_connections: int = 0  # of a hello: how many sockets this app has open


class EventEnvelope(msgspec.Struct, frozen=True):
    """What every event comes in."""

    type: str = ""
    event: msgspec.Raw = msgspec.Raw(b"{}")
    challenge: str = ""


class EventHeader(msgspec.Struct, frozen=True):
    type: str = ""
    subtype: str | None = None


class SlackEdit(msgspec.Struct, frozen=True):
    ts: str


class SlackFile(msgspec.Struct, frozen=True):
    id: str = ""
    name: str | None = None
    size: int | None = None
    mode: str = ""
    file_access: str = ""
    url_private_download: str = ""
    url_private: str = ""


class SlackMessage(msgspec.Struct, frozen=True):
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
    edited: SlackEdit | None = None
    files: tuple[SlackFile, ...] | None = None
    message: "SlackMessage | None" = None  # of a change: how it reads now
    previous_message: "SlackMessage | None" = None


class SlackCommand(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/interactivity/implementing-slash-commands"""

    command: str
    user_id: str
    channel_id: str
    trigger_id: str
    text: str = ""
    user_name: str | None = None


class SlackInteractionUser(msgspec.Struct, frozen=True):
    id: str
    username: str | None = None


class SlackChannel(msgspec.Struct, frozen=True):
    id: str


class SlackAction(msgspec.Struct, frozen=True):
    action_ts: str = ""
    value: str | None = None


class SlackInteraction(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/interaction-payloads/block_actions-payload"""

    type: str
    user: SlackInteractionUser
    channel: SlackChannel | None = None
    message: SlackMessage | None = None
    actions: tuple[SlackAction, ...] = ()


class SlackIdentity(msgspec.Struct, frozen=True):
    """Who we are: https://docs.slack.dev/reference/methods/auth.test"""

    user_id: str
    team_id: str
    bot_id: str = ""
    user: str = ""


class SocketUrl(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/apps.connections.open"""

    url: str


class SlackPostResponse(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/chat.postMessage"""

    ts: str


class SlackUploadUrl(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/files.getUploadURLExternal"""

    upload_url: str
    file_id: str


class SlackFileResponse(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/files.info"""

    file: SlackFile


class SlackProfile(msgspec.Struct, frozen=True):
    display_name: str = ""
    real_name: str = ""


class SlackUser(msgspec.Struct, frozen=True):
    name: str = ""
    profile: SlackProfile = SlackProfile()


class SlackUserResponse(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/users.info"""

    user: SlackUser


class SlackMetadata(msgspec.Struct, frozen=True):
    event_type: str = ""
    event_payload: dict[str, object] = {}


class SlackBlock(msgspec.Struct, frozen=True):
    block_id: str = ""


class SlackHistoryMessage(msgspec.Struct, frozen=True):
    """A message as the history has it."""

    ts: str
    metadata: SlackMetadata | None = None
    blocks: tuple[SlackBlock, ...] = ()


class SlackPageCursor(msgspec.Struct, frozen=True):
    next_cursor: str = ""


class SlackHistoryPage(msgspec.Struct, frozen=True):
    """https://docs.slack.dev/reference/methods/conversations.history"""

    messages: tuple[SlackHistoryMessage, ...] = ()
    response_metadata: SlackPageCursor | None = None


class SlackEmptyResponse(msgspec.Struct, frozen=True):
    """An answer of which nothing is read."""
