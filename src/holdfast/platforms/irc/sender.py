"""Sends messages as IRC lines, and finds out whether the server accepted them.

A server with echo-message (https://ircv3.net/specs/extensions/echo-message) returns each line to us
once it has accepted it: that is the receipt. With labeled-response
(https://ircv3.net/specs/extensions/labeled-response) it is certain which line is meant. Other
servers do not confirm lines, but they answer in order: the PONG to a PING behind the lines comes
after every error about them.
"""

import asyncio
import re
from collections import deque
from collections.abc import Mapping

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendError, SendRejected, Throttled
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.platforms.irc.channels import ChannelMembership
from holdfast.platforms.irc.client import USERNAME, IrcClient, is_pong
from holdfast.platforms.irc.events import IrcMessage, is_valid_target
from holdfast.platforms.irc.users import UserDirectory
from holdfast.platforms.text.irc import render

REPEAT_NOTICE = "(This may have reached you before.)\n\n"
_MAX_LINE_BYTES = 512  # with the prefix that the server adds, and the line end
_MAX_HOST_BYTES = 64
_DEFAULT_RETRY_AFTER = 60.0  # seconds, if the server does not say how long to wait
_MAX_REMEMBERED = 500  # of our own messages
# https://modern.ircdocs.horse/#errnosuchnick-401 and following, and additions of networks:
# 477 and 486: login required, 489: TLS required, 531: not to this user, 716: recipient blocks us.
_REFUSAL_CODES = frozenset(
    {"401", "403", "404", "405", "407", "411", "412", "413", "414", "415", "417"}
)
_REFUSAL_CODES |= {"442", "477", "482", "486", "489", "492", "531", "716"}
_THROTTLE_CODES = frozenset({"263", "439"})
_SECONDS_PATTERN = re.compile(r"(\d+)\s*sec", re.IGNORECASE)


class IrcSender:
    """Sends the messages of one connection one at a time, so that an error is about the message
    that is being sent. Owns the ids that the server gave to our latest messages."""

    def __init__(
        self, client: IrcClient, users: UserDirectory, channels: ChannelMembership
    ) -> None:
        self._client = client
        self._users = users
        self._channels = channels
        self._lock = asyncio.Lock()
        self._own_message_ids: deque[str] = deque(maxlen=_MAX_REMEMBERED)

    def is_ours(self, message_id: str) -> bool:
        return message_id in self._own_message_ids

    async def send(self, outbound: Outbound) -> Receipt:
        text = f"{REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
        async with self._lock:
            target = await self._target(outbound.address)
            lines = render(text, limit=max_text_bytes(self._client.nick, target))
            if not lines:
                raise SendRejected("a message without text cannot be sent to IRC")
            delivery = MessageDelivery(self._client, target, len(lines))
            with self._client.subscribe(delivery.handle_message):
                await delivery.write(lines, self._reply_to(outbound.address))
                message_ids = await delivery.wait_until_accepted()
        self._own_message_ids.extend(message_ids)
        return Receipt(platform_message_id=message_ids[0] if message_ids else outbound.delivery_id)

    async def show_typing(self, address: Address) -> None:
        """https://ircv3.net/specs/client-tags/typing. Skipped if a message is being sent
        or the flood limit is near."""
        if self._client.limiter.has_spare and not self._lock.locked():
            target = await self._target(address)
            await self._client.send("TAGMSG", target, tags={"+typing": "active"})

    async def _target(self, address: Address) -> str:
        chat = address.chat_id
        if not is_valid_target(chat):
            raise SendRejected("{chat!r} is neither a channel nor a nick", chat=chat)
        if not self._client.names.is_channel(chat):
            return await self._users.current_nick(chat)
        await self._channels.ensure_joined(chat)
        return chat

    def _reply_to(self, address: Address) -> Mapping[str, str]:
        """https://ircv3.net/specs/client-tags/reply. A server without tags has no message ids."""
        if address.reply_to is None or "message-tags" not in self._client.capabilities:
            return {}
        return {"+draft/reply": address.reply_to}


class MessageDelivery:
    """Tracks the server's answers to the lines of one message."""

    def __init__(self, client: IrcClient, target: str, line_count: int) -> None:
        self._client = client
        self._target = target
        self._line_count = line_count
        self._has_echo = "echo-message" in client.capabilities
        self._has_labels = self._has_echo and "labeled-response" in client.capabilities
        self._tokens: set[str] = set()  # labels, and the token of the PING
        self._message_ids: list[str] = []
        self._echo_count = 0
        self._outcome: asyncio.Future[SendError | None] = asyncio.get_running_loop().create_future()

    async def write(self, lines: tuple[str, ...], tags: Mapping[str, str]) -> None:
        """Stops at the first error of the server. Raises `NotConnected` if nothing was written."""
        for number, text in enumerate(lines):
            if self._outcome.done():
                return
            try:
                await self._client.send(
                    "PRIVMSG", self._target, text, tags={**tags, **self._label()}
                )
            except NotConnected as error:
                if number:
                    raise OutcomeUnknown(
                        "the connection was lost between two lines of the message"
                    ) from error
                raise
            tags = {}  # only the first line refers to the message it answers
        if not self._has_echo and not self._outcome.done():
            await self._send_ping()

    async def wait_until_accepted(self) -> list[str]:
        """The message ids of the lines, if the server gives any. Raises a `SendError`."""
        error = await self._client.wait_for(self._outcome)
        if error is not None:
            raise error
        return self._message_ids

    def handle_message(self, message: IrcMessage) -> None:
        if self._outcome.done():
            return
        if (error := self._to_send_error(message)) is not None:
            self._outcome.set_result(error)
        elif self._is_receipt(message):
            self._outcome.set_result(None)

    def _label(self) -> dict[str, str]:
        if not self._has_labels:
            return {}
        label = self._client.next_token()
        self._tokens.add(label)
        return {"label": label}

    async def _send_ping(self) -> None:
        token = self._client.next_token()
        self._tokens.add(token)
        try:
            await self._client.send("PING", token)
        except NotConnected as error:
            raise OutcomeUnknown("the connection was lost after the message") from error

    def _is_receipt(self, message: IrcMessage) -> bool:
        if not self._has_echo:
            return any(is_pong(message, token) for token in self._tokens)
        if not self._is_echo(message):
            return False
        self._echo_count += 1
        if name := message.tags.get("msgid"):
            self._message_ids.append(name)
        return self._echo_count == self._line_count

    def _is_echo(self, message: IrcMessage) -> bool:
        if self._has_labels:
            return message.tags.get("label") in self._tokens
        is_own = message.command == "PRIVMSG" and self._client.is_me(message.nick)
        return is_own and self._client.names.is_same(message.param(0), self._target)

    def _to_send_error(self, message: IrcMessage) -> SendError | None:
        if message.command == "FAIL" and message.param(0) == "PRIVMSG":
            return SendRejected(
                "the server refused the message to {target}: {trailing}",
                target=self._target,
                trailing=message.trailing,
            )
        if message.command not in _REFUSAL_CODES | _THROTTLE_CODES or not self._is_about_this(
            message
        ):
            return None
        if message.command in _THROTTLE_CODES:
            return Throttled(
                "the server rate-limits messages to {target}: {trailing}",
                target=self._target,
                trailing=message.trailing,
                retry_after=_parse_seconds(message.trailing),
            )
        return SendRejected(
            "the server refused the message to {target}: {trailing}",
            target=self._target,
            trailing=message.trailing,
        )

    def _is_about_this(self, message: IrcMessage) -> bool:
        """Decided by its label, if it has one; otherwise by whether it names this target, PRIVMSG,
        or nothing."""
        if label := message.tags.get("label"):
            return label in self._tokens
        about = message.params[1:-1]
        return (
            not about
            or any(self._client.names.is_same(each, self._target) for each in about)
            or ("PRIVMSG" in about)
        )


def max_text_bytes(nick: str, target: str) -> int:
    """Bytes left for the text: the server puts our hostmask and the target in front of it."""
    prefix = len(f":{nick}!~{USERNAME}@ PRIVMSG {target} :\r\n".encode())
    return _MAX_LINE_BYTES - prefix - _MAX_HOST_BYTES


def _parse_seconds(text: str) -> float:
    found = _SECONDS_PATTERN.search(text)
    return float(found[1]) if found else _DEFAULT_RETRY_AFTER
