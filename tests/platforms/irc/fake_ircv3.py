"""A fake IRCv3 server with what ngircd lacks: SASL, tags, echoes and a history.

Each behaviour cites its specification. The bot is the only client; users write with `say`.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

from holdfast.platforms.irc.events import IrcMessage, parse_line
from holdfast.platforms.irc.history import format_timestamp

ANN, BOB = "ann!~ann@home.example", "bob!~bob@work.example"
ALL = frozenset(
    {
        "account-tag",
        "batch",
        "draft/chathistory",
        "echo-message",
        "labeled-response",
        "message-tags",
        "sasl",
        "server-time",
    }
)
PASSWORD = "correct horse"
CHANNEL = "#team"
SessionFault = Callable[["IrcSession", IrcMessage], None]


@dataclass(frozen=True, kw_only=True)
class StoredMessage:
    """A line of the history: https://ircv3.net/specs/extensions/message-ids and server-time."""

    source: str
    target: str
    text: str
    tags: dict[str, str]

    def wire_format(self, **more: str) -> str:
        tags = {**self.tags, **more}
        written = ";".join(f"{key}={value}" if value else key for key, value in tags.items())
        return f"@{written} :{self.source} PRIVMSG {self.target} :{self.text}"


@dataclass
class FakeIrcServer:
    """Owns the credentials, the history and the messages of the bot."""

    offered: frozenset[str] = ALL
    password: str = PASSWORD
    features: str = "CASEMAPPING=ascii CHANTYPES=# BOT=B CHATHISTORY=3"
    history: list[StoredMessage] = field(default_factory=list)
    bot_messages: list[IrcMessage] = field(default_factory=list)  # by the bot, as it was written
    faults: list[SessionFault] = field(default_factory=list)  # of the next lines that the bot sends
    names: dict[str, str] = field(default_factory=lambda: {"ann": ANN, "bob": BOB})
    session: "IrcSession | None" = None
    lists_chats: bool = True  # else it has no CHATHISTORY TARGETS
    refuses_connections: bool = False  # every connection is closed at once
    port: int = 0

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self._now = datetime.now(UTC)

    def say(
        self,
        text: str,
        *,
        by: str = ANN,
        to: str = "holdfast",
        answers: str | None = None,
        **tags: str,
    ) -> str:
        """The id of the message. The bot gets it if it is connected. `answers` is an id:
        https://ircv3.net/specs/client-tags/reply."""
        number = next(self._numbers)
        known = {"msgid": f"m{number}", "time": self.moment(), **tags}
        if answers is not None:
            known["+draft/reply"] = answers
        if "account-tag" in self.offered and "account" not in known:
            known["account"] = by.partition("!")[0]
        stored = StoredMessage(source=by, target=to, text=text, tags=known)
        self.history.append(stored)
        if self.session is not None:
            self.session.deliver(stored)
        return known["msgid"]

    def fold(self, name: str) -> str:
        """https://modern.ircdocs.horse/#casemapping-parameter"""
        old = str.maketrans("[]\\~", "{}|^" if "=rfc1459 " in self.features else "{}|~")
        return name.lower().translate(old if "=rfc1459" in self.features else {})

    def texts(self) -> list[str]:
        return [message.trailing for message in self.bot_messages]

    def store(self, session: "IrcSession", message: IrcMessage) -> StoredMessage:
        tags = {"msgid": f"m{next(self._numbers)}", "time": self.moment()}
        source = f"{session.nick}!~holdfast@bot.example"
        stored = StoredMessage(
            source=source, target=message.param(0), text=message.trailing, tags=tags
        )
        self.history.append(stored)
        return stored

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["FakeIrcServer"]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            if self.session is not None:
                self.session.disconnect()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = IrcSession(self, writer)
        if self.refuses_connections:
            session.disconnect()
        try:
            while raw := await reader.readline():
                if (message := parse_line(raw)) is not None:
                    session.handle(message)
        except OSError:
            pass
        finally:
            session.disconnect()

    def moment(self) -> str:
        """The current time; no two calls return the same."""
        self._now = max(self._now + timedelta(milliseconds=1), datetime.now(UTC))
        return format_timestamp(self._now.timestamp())


class IrcSession:
    """Owns one connection of the bot."""

    def __init__(self, server: FakeIrcServer, writer: asyncio.StreamWriter) -> None:
        self._server = server
        self._writer = writer
        self._batches = count(1)
        self._negotiating = False
        self._secret = ""
        self.nick = ""
        self.caps: set[str] = set()
        self.channels: set[str] = set()
        self.received: list[IrcMessage] = []  # everything that the bot has said on it

    def handle(self, message: IrcMessage) -> None:
        self.received.append(message)
        verbs: dict[str, Callable[[IrcMessage], None]] = {
            "CAP": self._cap,
            "NICK": self._nick,
            "USER": lambda _: self._welcome(),
            "AUTHENTICATE": self._authenticate,
            "PING": lambda asked: self.number("PONG", "irc.test", f":{asked.trailing}"),
            "JOIN": self._join,
            "PRIVMSG": self._privmsg,
            "WHOIS": self._whois,
            "CHATHISTORY": self._chathistory,
            "QUIT": lambda _: self.disconnect(),
        }
        if message.command in verbs:
            verbs[message.command](message)

    def disconnect(self) -> None:
        if self._server.session is self:
            self._server.session = None
        self._writer.transport.abort()

    def write(self, line: str) -> None:
        self._writer.write(f"{line}\r\n".encode())

    def number(self, verb: str, *words: str, label: str | None = None) -> None:
        tags = f"@label={label} " if label and "labeled-response" in self.caps else ""
        self.write(f"{tags}:irc.test {verb} {' '.join(words)}")

    def deliver(self, stored: StoredMessage) -> None:
        if stored.target.startswith("#") and self._server.fold(stored.target) not in self.channels:
            return
        dropped = {"msgid": "message-tags", "time": "server-time", "account": "account-tag"}
        tags = {
            key: value
            for key, value in stored.tags.items()
            if dropped.get(key, "message-tags") in self.caps
        }
        line = StoredMessage(
            source=stored.source, target=stored.target, text=stored.text, tags=tags
        ).wire_format()
        self.write(line.removeprefix("@ "))

    def _cap(self, message: IrcMessage) -> None:
        """https://ircv3.net/specs/extensions/capability-negotiation: a list too long for one line
        goes on in another, and the first says so by an asterisk."""
        match message.param(0):
            case "LS":
                self._negotiating = True
                offered = sorted(
                    "sasl=PLAIN,EXTERNAL" if each == "sasl" else each
                    for each in self._server.offered
                )
                self.write(f":irc.test CAP * LS * :{' '.join(offered[:2])}")
                self.write(f":irc.test CAP * LS :{' '.join(offered[2:])}")
            case "REQ":
                assert set(message.trailing.split()) <= self._server.offered
                self.caps |= set(message.trailing.split())
                self.write(f":irc.test CAP * ACK :{message.trailing}")
            case "END":
                self._negotiating = False
                self._welcome()

    def _nick(self, message: IrcMessage) -> None:
        if not self.nick:
            self.nick = message.trailing

    def _welcome(self) -> None:
        if self._negotiating or not self.nick:
            return
        self._server.session = self
        # https://ircv3.net/specs/extensions/server-time: any message may say when it was sent.
        self.write(f"@time={self._server.moment()} :irc.test 001 {self.nick} :Welcome")
        self.number("005", self.nick, self._server.features, ":are supported by this server")
        self.number("422", self.nick, ":There is no message of the day")

    def _authenticate(self, message: IrcMessage) -> None:
        """https://ircv3.net/specs/extensions/sasl-3.1: in pieces of 400, the last one shorter."""
        if message.trailing == "PLAIN":
            self.write("AUTHENTICATE +")
            return
        self._secret += message.trailing.strip("+") if message.trailing == "+" else message.trailing
        if len(message.trailing) == 400:
            return
        _, account, password = base64.b64decode(self._secret).decode().split("\0")
        if (account, password) == ("holdfast", self._server.password):
            self.number("900", "*", "*", account, ":You are now logged in")
            self.number("903", "*", ":SASL authentication successful")
        else:
            self.number("904", "*", ":SASL authentication failed")

    def _join(self, message: IrcMessage) -> None:
        for channel in message.trailing.split(","):
            self.channels.add(self._server.fold(channel))
            self.write(f":{self.nick}!~holdfast@bot.example JOIN {channel}")
            self.number("366", self.nick, channel, ":End of NAMES list")

    def _privmsg(self, message: IrcMessage) -> None:
        if self._server.faults:
            self._server.faults.pop(0)(self, message)
            return
        stored = self.accept(message)
        # https://ircv3.net/specs/extensions/echo-message; the label goes back with the echo.
        if "echo-message" in self.caps:
            label = {"label": message.tags["label"]} if "label" in message.tags else {}
            self.write(stored.wire_format(**label))

    def accept(self, message: IrcMessage) -> StoredMessage:
        self._server.bot_messages.append(message)
        return self._server.store(self, message)

    def _whois(self, message: IrcMessage) -> None:
        nick = message.trailing
        if (mask := self._server.names.get(nick)) is None:
            self.number("401", self.nick, nick, ":No such nick/channel")
        else:
            user, _, host = mask.partition("!")[2].partition("@")
            self.number("311", self.nick, nick, user, host, "* :somebody")
            if "account-tag" in self._server.offered:
                account = mask.partition("!")[0]
                self.number("330", self.nick, nick, account, ":is logged in as")
        self.number("318", self.nick, nick, ":End of /WHOIS list")

    def _chathistory(self, message: IrcMessage) -> None:
        """https://ircv3.net/specs/extensions/chathistory: what is strictly later, oldest first, no
        more than the limit; and of whom there is something in between two moments."""
        if message.param(0) == "TARGETS" and not self._server.lists_chats:
            self.number("FAIL", "CHATHISTORY UNKNOWN_COMMAND TARGETS :Unknown command")
            return
        if message.param(0) == "TARGETS":
            begin, end = (message.param(each).partition("=")[2] for each in (1, 2))
            chats = sorted(dict(self._chats(begin, end)).items(), key=lambda pair: pair[1])
            found = chats[: min(int(message.trailing), 3)]
            lines = [f"CHATHISTORY TARGETS {chat} {at}" for chat, at in found]
            self._batch("draft/chathistory-targets", [f":irc.test {each}" for each in lines])
            return
        target, after = message.param(1), message.param(2).partition("=")[2]
        later = [stored for stored in self._of(target) if stored.tags["time"] > after]
        self._batch(f"chathistory {target}", later[: min(int(message.trailing), 3)])

    def _chats(self, begin: str, end: str) -> Iterator[tuple[str, str]]:
        for stored in self._server.history:
            other = (
                stored.target if stored.target.startswith("#") else stored.source.partition("!")[0]
            )
            if begin < stored.tags["time"] < end and other != self.nick:
                yield other, stored.tags["time"]

    def _of(self, target: str) -> list[StoredMessage]:
        if target.startswith("#"):
            return [stored for stored in self._server.history if stored.target == target]
        alone = [stored for stored in self._server.history if not stored.target.startswith("#")]
        return [
            stored
            for stored in alone
            if stored.target == target or stored.source.startswith(f"{target}!")
        ]

    def _batch(self, kind: str, lines: list[StoredMessage] | list[str]) -> None:
        """https://ircv3.net/specs/extensions/batch"""
        name = f"b{next(self._batches)}"
        self.write(f":irc.test BATCH +{name} {kind}")
        for line in lines:
            batched = (
                line.wire_format(batch=name)
                if isinstance(line, StoredMessage)
                else f"@batch={name} {line}"
            )
            self.write(batched)
        self.write(f":irc.test BATCH -{name}")


def flood(session: IrcSession, message: IrcMessage) -> None:
    """439 of many networks: too many people are written to at once."""
    words = ":Message target change too fast. Please wait 7 seconds."
    session.number("439", session.nick, message.param(0), words, label=message.tags.get("label"))


def gone(session: IrcSession, message: IrcMessage) -> None:
    """https://modern.ircdocs.horse/#errnosuchnick-401"""
    words = ":No such nick/channel"
    session.number("401", session.nick, message.param(0), words, label=message.tags.get("label"))


def reset_after(session: IrcSession, message: IrcMessage) -> None:
    """The message is accepted, and the connection is reset before the confirmation."""
    session.accept(message)
    session.disconnect()


def unanswered(session: IrcSession, message: IrcMessage) -> None:
    """The message is accepted, and no confirmation follows."""
    session.accept(message)
