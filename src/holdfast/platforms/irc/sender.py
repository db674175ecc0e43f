"""Sending: our messages as lines, and what is known of each once it was written.

A server with echo-message (https://ircv3.net/specs/extensions/echo-message) says each line back to
us once it has taken it, and that is the receipt; with labeled-response
(https://ircv3.net/specs/extensions/labeled-response) there is no doubt which line is meant. Other
servers say nothing of a line that they have taken. They answer in order, though: the PONG to a PING
that follows the lines comes behind every complaint about them.
"""

import asyncio
import re
from collections import deque
from collections.abc import Mapping

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused, SendError, Throttled
from holdfast.core.messages.outbox import Address, Outbound, Receipt
from holdfast.platforms.irc.channels import Channels
from holdfast.platforms.irc.greeting import USER
from holdfast.platforms.irc.line import Line, is_pong
from holdfast.platforms.irc.names import is_target
from holdfast.platforms.irc.users import People
from holdfast.platforms.irc.wire import Heard
from holdfast.platforms.text.irc import render

REPEATED = "(This may have reached you before.)\n\n"
_WHOLE = 512  # bytes of a line, with what the server sets before it and its end
_LONGEST_HOST = 64
_PAUSE = 60.0  # seconds, where we are asked to wait and not told for how long
_REMEMBERED = 500  # of our own messages
# https://modern.ircdocs.horse/#errnosuchnick-401 and those behind it, and what networks added:
# 477 and 486 only who is logged in, 489 only over TLS, 531 not to this person, 716 not asked for.
_REFUSALS = frozenset({"401", "403", "404", "405", "407", "411", "412", "413", "414", "415", "417"})
_REFUSALS |= {"442", "477", "482", "486", "489", "492", "531", "716"}
_LATER = frozenset({"263", "439"})
_SECONDS = re.compile(r"(\d+)\s*sec", re.IGNORECASE)


class Sending:
    """Owns the turn in which messages are sent on one line, and which of ours were named by the
    server. One at a time: a complaint is then about the one that is being sent."""

    def __init__(self, line: Line, people: People, channels: Channels) -> None:
        self._line = line
        self._people = people
        self._channels = channels
        self._turn = asyncio.Lock()
        self._ours: deque[str] = deque(maxlen=_REMEMBERED)

    def is_ours(self, message_id: str) -> bool:
        return message_id in self._ours

    async def send(self, outbound: Outbound) -> Receipt:
        text = f"{REPEATED}{outbound.text}" if outbound.maybe_repeated else outbound.text
        async with self._turn:
            target = await self._target(outbound.address)
            lines = render(text, limit=room(self._line.nick, target))
            if not lines:
                raise Refused("there is nothing in it that a line could say")
            posting = Posting(self._line, target, len(lines))
            with self._line.heard_by(posting.hear):
                await posting.write(lines, self._reply_to(outbound.address))
                names = await posting.taken()
        self._ours.extend(names)
        return Receipt(platform_message_id=names[0] if names else outbound.delivery_id)

    async def typing(self, address: Address) -> None:
        """https://ircv3.net/specs/client-tags/typing: nobody misses one, so it costs no reply its
        place."""
        if self._line.pace.spare and not self._turn.locked():
            target = await self._target(address)
            await self._line.say("TAGMSG", target, tags={"+typing": "active"})

    async def _target(self, address: Address) -> str:
        chat = address.chat_id
        if not is_target(chat):
            raise Refused(f"{chat!r} is neither a channel nor a nick")
        if not self._line.names.is_channel(chat):
            return await self._people.nick_of(chat)
        await self._channels.enter(chat)
        return chat

    def _reply_to(self, address: Address) -> Mapping[str, str]:
        """https://ircv3.net/specs/client-tags/reply. Who has no tags has no names for messages
        either."""
        if address.reply_to is None or "message-tags" not in self._line.enabled:
            return {}
        return {"+draft/reply": address.reply_to}


class Posting:
    """Owns what is heard about the lines of one message."""

    def __init__(self, line: Line, target: str, number: int) -> None:
        self._line = line
        self._target = target
        self._number = number
        self._echoed = "echo-message" in line.enabled
        self._labelled = self._echoed and "labeled-response" in line.enabled
        self._mine: set[str] = set()  # labels, and the token of the PING
        self._names: list[str] = []
        self._echoes = 0
        self._told: asyncio.Future[SendError | None] = asyncio.get_running_loop().create_future()

    async def write(self, lines: tuple[str, ...], tags: Mapping[str, str]) -> None:
        """As far as nobody complains. Raises `NotConnected` where nothing was written."""
        for number, text in enumerate(lines):
            if self._told.done():
                return
            try:
                await self._line.say("PRIVMSG", self._target, text, tags={**tags, **self._label()})
            except NotConnected as error:
                if number:
                    raise OutcomeUnknown("the connection broke between two lines of it") from error
                raise
            tags = {}  # what is answered stands at the first of them
        if not self._echoed and not self._told.done():
            await self._ask()

    async def taken(self) -> list[str]:
        """The names that the server gave to the lines, if it gives any. Raises a `SendError`."""
        complaint = await self._line.awaited(self._told)
        if complaint is not None:
            raise complaint
        return self._names

    def hear(self, heard: Heard) -> None:
        if self._told.done():
            return
        if (complaint := self._complaint(heard)) is not None:
            self._told.set_result(complaint)
        elif self._is_receipt(heard):
            self._told.set_result(None)

    def _label(self) -> dict[str, str]:
        if not self._labelled:
            return {}
        label = self._line.number()
        self._mine.add(label)
        return {"label": label}

    async def _ask(self) -> None:
        token = self._line.number()
        self._mine.add(token)
        try:
            await self._line.say("PING", token)
        except NotConnected as error:
            raise OutcomeUnknown("the connection broke behind it") from error

    def _is_receipt(self, heard: Heard) -> bool:
        if not self._echoed:
            return any(is_pong(heard, token) for token in self._mine)
        if not self._is_echo(heard):
            return False
        self._echoes += 1
        if name := heard.tags.get("msgid"):
            self._names.append(name)
        return self._echoes == self._number

    def _is_echo(self, heard: Heard) -> bool:
        if self._labelled:
            return heard.tags.get("label") in self._mine
        told_by_us = heard.verb == "PRIVMSG" and self._line.is_me(heard.nick)
        return told_by_us and self._line.names.same(heard.param(0), self._target)

    def _complaint(self, heard: Heard) -> SendError | None:
        if heard.verb == "FAIL" and heard.param(0) == "PRIVMSG":
            return Refused(f"{self._target} was not given it: {heard.last}")
        if heard.verb not in _REFUSALS | _LATER or not self._is_about_this(heard):
            return None
        if heard.verb in _LATER:
            return Throttled(
                f"the server asks to wait with messages to {self._target}: {heard.last}",
                retry_after=_seconds(heard.last),
            )
        return Refused(f"{self._target} was not given it: {heard.last}")

    def _is_about_this(self, heard: Heard) -> bool:
        """The label says so where there is one; else whom it names, or nobody."""
        if label := heard.tags.get("label"):
            return label in self._mine
        about = heard.params[1:-1]
        return (
            not about
            or any(self._line.names.same(each, self._target) for each in about)
            or ("PRIVMSG" in about)
        )


def room(nick: str, target: str) -> int:
    """Bytes that are left for the text: others get it behind our name and where it is said."""
    ahead = len(f":{nick}!~{USER}@ PRIVMSG {target} :\r\n".encode())
    return _WHOLE - ahead - _LONGEST_HOST


def _seconds(told: str) -> float:
    found = _SECONDS.search(told)
    return float(found[1]) if found else _PAUSE
