"""Slack's payload types (https://docs.slack.dev/reference), as far as they are read here, and how
they become inbound messages."""

import html
import re

import msgspec

from holdfast.core.commands import COMMANDS_BY_NAME
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source

PLATFORM = "slack"

# https://docs.slack.dev/reference/events/message#subtypes: those that carry a written message.
_MESSAGE_SUBTYPES = frozenset(
    {None, "", "file_share", "me_message", "thread_broadcast", "bot_message"}
)
_REFERENCE = re.compile(r"<([^<>]+)>")
_REFERENCE_PREFIXES = "@#!"


class SocketFrame(msgspec.Struct, frozen=True):
    """A Socket Mode frame: an envelope, or a message about the socket itself."""

    type: str = ""
    envelope_id: str = ""
    payload: msgspec.Raw = msgspec.Raw(b"{}")
    reason: str = ""  # of a disconnect
    num_connections: int = 0  # of a hello: how many sockets this app has open


class EventEnvelope(msgspec.Struct, frozen=True):
    """The outer object of every event."""

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
    """A message: as an event, inside a `message_changed` event, or with a button that was
    pressed."""

    subtype: str | None = None
    channel: str = ""
    channel_type: str = ""
    user: str | None = None
    bot_id: str | None = None
    username: str | None = None  # of a bot that is not a user
    text: str | None = None
    ts: str = ""
    thread_ts: str | None = None
    parent_user_id: str | None = None
    edited: SlackEdit | None = None
    files: tuple[SlackFile, ...] | None = None
    message: "SlackMessage | None" = None  # of `message_changed`: the new version
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
    """Our own user: https://docs.slack.dev/reference/methods/auth.test"""

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
    locale: str = ""  # of the user's Slack client: "de-DE"
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
    """A message in a chat's history."""

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
    """A response of which no field is read."""


def plain_text(text: str, *, own_user_id: str) -> str:
    """The text as Slack displays it. A leading mention of us is removed, so that a command may
    follow it.

    https://docs.slack.dev/messaging/formatting-message-text: `&`, `<` and `>` are escaped; angle
    brackets contain users (`<@U1>`), channels (`<#C1|name>`), special mentions (`<!here>`) and
    links.
    """
    own = re.compile(rf"\s*<@{re.escape(own_user_id)}(\|[^<>]*)?>[\s:,]*")
    if (found := own.match(text)) is not None:
        text = text[found.end() :]
    return html.unescape(_REFERENCE.sub(_render_reference, text)).strip()


def mentions(text: str, user_id: str) -> bool:
    """Whether the raw text mentions the user."""
    return f"<@{user_id}>" in text or f"<@{user_id}|" in text


def _render_reference(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    kind, name = target[:1], target[1:]
    if kind not in _REFERENCE_PREFIXES:
        return _render_link(target, label)
    if kind == "!":
        return label or f"@{name.split('^')[0]}"
    return f"{kind}{(label or name).lstrip(kind)}"


def _render_link(address: str, label: str) -> str:
    target = address.removeprefix("mailto:")
    # Slack turns typed e-mail addresses and host names into links.
    if (
        not label
        or label in (target, address)
        or address in (f"http://{label}", f"https://{label}")
    ):
        return label or target
    return f"{label} ({target})"


class SlackParser:
    """Turns the events of one app into inbound messages. Its only state is the app's identity."""

    def __init__(self, identity: SlackIdentity, *, account: str, reply_in_threads: bool) -> None:
        self._identity = identity
        self._account = account
        self._reply_in_threads = reply_in_threads

    def parse_message(self, event: SlackMessage) -> tuple[SlackMessage, Inbound] | None:
        """The message of an event, and the inbound message made of it. None if it is not a written
        message, or is our own: Slack also reports each of our edits of a streamed reply.

        A mention in a channel arrives twice, as `message` and as `app_mention`, with different
        event ids. Our event id is therefore made of the message's `ts` and the `ts` of its edit.
        """
        message = _edited_message(event) if event.subtype == "message_changed" else event
        if message is None or message.subtype not in _MESSAGE_SUBTYPES or not message.ts:
            return None
        author = self._author(message)
        if author is Author.SELF:
            return None
        chat, text = event.channel, message.text or ""
        mentioned = mentions(text, self._identity.user_id)
        # A message that is only a mention of us is still addressed to us.
        only_mention = f"@{self._identity.user}" if mentioned else ""
        version = f"/{message.edited.ts}" if message.edited is not None else ""
        return message, Inbound(
            source=self._source(message, chat, channel_type=event.channel_type, author=author),
            event_id=self._event_id(f"{chat}/{message.ts}{version}"),
            message_id=message.ts,
            text=plain_text(text, own_user_id=self._identity.user_id) or only_mention,
            mentioned=mentioned,
            quoted=self._quote(message),
        )

    def parse_interaction(self, interaction: SlackInteraction) -> Inbound | None:
        """A pressed button sends its value. None if the button's message was deleted: then no chat
        is given."""
        action = interaction.actions[0] if interaction.actions else None
        if (
            interaction.channel is None
            or interaction.message is None
            or action is None
            or not action.value
        ):
            return None
        chat, message = interaction.channel.id, interaction.message
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=chat,
                chat_type=_chat_type(chat, ""),
                thread_id=_thread_id(message),
                user_id=interaction.user.id,
                user_name=interaction.user.username,
            ),
            event_id=self._event_id(
                f"{chat}/{message.ts}/{interaction.user.id}/{action.action_ts}"
            ),
            message_id=message.ts,
            text=action.value,
            mentioned=True,
        )

    def parse_command(self, command: SlackCommand) -> Inbound:
        """A slash command. Slack has none in threads, so it belongs to the chat itself."""
        return Inbound(
            source=Source(
                platform=PLATFORM,
                account=self._account,
                chat_id=command.channel_id,
                chat_type=_chat_type(command.channel_id, ""),
                user_id=command.user_id,
                user_name=command.user_name,
            ),
            event_id=self._event_id(f"{command.channel_id}/command/{command.trigger_id}"),
            message_id=command.trigger_id,
            text=plain_text(_command_text(command), own_user_id=self._identity.user_id),
            mentioned=True,
        )

    def _event_id(self, name: str) -> str:
        return f"{self._identity.team_id}/{name}"

    def _source(
        self, message: SlackMessage, chat: str, *, channel_type: str, author: Author
    ) -> Source:
        chat_type = _chat_type(chat, channel_type)
        thread = _thread_id(message)
        if thread is None and self._reply_in_threads and chat_type is not ChatType.DM:
            thread = message.ts  # the reply opens a thread on this message
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=chat,
            chat_type=chat_type,
            thread_id=thread,
            user_id=message.user or message.bot_id or "",
            user_name=message.username,
            author=author,
        )

    def _author(self, message: SlackMessage) -> Author:
        ours = {self._identity.user_id, self._identity.bot_id} - {""}
        if message.user in ours or message.bot_id in ours:
            return Author.SELF
        is_bot = bool(message.bot_id) or message.subtype == "bot_message"
        return Author.BOT if is_bot else Author.PERSON

    def _quote(self, message: SlackMessage) -> Quote | None:
        """A message in a thread quotes the message that opened it. Slack gives its author but not
        its text; if it was ours, the text is in the conversation."""
        if not message.parent_user_id or message.thread_ts == message.ts:
            return None
        return Quote(
            user_id=message.parent_user_id,
            message_id=message.thread_ts,
            ours=message.parent_user_id == self._identity.user_id,
        )


def _command_text(command: SlackCommand) -> str:
    """`/holdfast stop` means `/stop`, and so does `/stop`, if the app has that command. Text that
    does not begin with one of our commands goes to the agent; empty text means `/help`."""
    own, words = command.command.lstrip("/").lower(), command.text.strip().lstrip("/")
    if own in COMMANDS_BY_NAME:
        return f"/{own} {words}".rstrip()
    first = words.split(maxsplit=1)[0].lower() if words else "help"
    return f"/{words or first}" if first in COMMANDS_BY_NAME else command.text


def _edited_message(event: SlackMessage) -> SlackMessage | None:
    """The new version of an edited message. None for changes that are not edits by its author: a
    link preview, the first reply in a thread."""
    new, old = event.message, event.previous_message
    if new is None or new.edited is None:
        return None
    return None if old is not None and old.text == new.text else new


def _thread_id(message: SlackMessage) -> str | None:
    """None for the first message of a thread: it has its own `ts` as `thread_ts`, and belongs to
    the chat itself."""
    return message.thread_ts if message.thread_ts != message.ts else None


def _chat_type(chat: str, channel_type: str) -> ChatType:
    """Not every event has a channel type; the id of a direct chat begins with D."""
    return ChatType.DM if channel_type == "im" or chat.startswith("D") else ChatType.GROUP
