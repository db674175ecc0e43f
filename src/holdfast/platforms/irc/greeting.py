"""Greeting: how a connection is registered, from the first word to the end of the welcome.

https://modern.ircdocs.horse/#connection-registration,
https://ircv3.net/specs/extensions/capability-negotiation and https://ircv3.net/specs/extensions/sasl-3.1.
"""

import base64
from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import AccountDisconnected, ConnectRefused
from holdfast.core.secret import Secret
from holdfast.platforms.irc.link import IrcSocket
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.wire import IrcMessage, format_line

USERNAME = "holdfast"
_WANTED_CAPABILITIES = frozenset(
    {
        "account-tag",
        "batch",
        "draft/chathistory",
        "echo-message",
        "labeled-response",
        "message-tags",
        "server-time",
    }
)
_SASL_CHUNK_LENGTH = 400  # signs of base64 in one line of SASL
_MAX_OTHER_NICKS = 5  # that are tried where the first one is taken


class ServerWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a server once it has let us in."""

    nick: str  # the one we have, which may not be the one we wanted
    capabilities: frozenset[str]  # of what IRCv3 has
    features: Mapping[str, str]  # what it says of itself
    server_time: str  # when that was, by its own clock; "": it does not say


class IrcRegistration:
    """Owns one registration: what was offered, what was agreed on, and which nick is tried."""

    def __init__(
        self,
        socket: IrcSocket,
        settings: IrcSettings,
        secrets: Mapping[str, Secret],
        *,
        account: str,
    ) -> None:
        self._socket = socket
        self._settings = settings
        self._password = secrets.get("password")
        self._server_password = secrets.get("server_password")
        self._table = account_table("irc", account)
        self._nick = settings.nick
        self._offered: dict[str, str] = {}
        self._enabled_capabilities: set[str] = set()
        self._features: dict[str, str] = {}
        self._logged_in = False
        self._server_time = ""

    async def register(self) -> ServerWelcome:
        """Raises `AccountDisconnected`, and `ConnectRefused` where a person has to mend something."""
        self._send("CAP", "LS", "302")
        if self._server_password is not None:
            self._send("PASS", self._server_password.reveal())
        self._send("NICK", self._nick)
        self._send("USER", USERNAME, "0", "*", "Holdfast")
        while True:
            heard = await self._socket.read_message()
            if heard.command in ("376", "422"):  # the message of the day is over, or there is none
                break
            if (answer := self._handlers().get(heard.command)) is not None:
                answer(heard)
        return ServerWelcome(
            nick=self._nick,
            capabilities=frozenset(self._enabled_capabilities),
            features=dict(self._features),
            server_time=self._server_time,
        )

    def _handlers(self) -> Mapping[str, Callable[[IrcMessage], None]]:
        return {
            "PING": lambda heard: self._send("PONG", heard.trailing),
            "ERROR": self._handle_error,
            "CAP": self._handle_cap,
            "AUTHENTICATE": self._send_credentials,
            "001": self._handle_welcome,
            "005": self._handle_isupport,
            "432": self._handle_bad_nick,
            "433": self._try_next_nick,
            "436": self._try_next_nick,
            "437": self._try_next_nick,
            "464": self._handle_bad_server_password,
            "465": self._handle_ban,
            "903": self._handle_authenticated,
            "907": self._handle_authenticated,
            **dict.fromkeys(("902", "904", "905", "906", "908"), self._handle_bad_password),
        }

    def _send(self, command: str, *params: str) -> None:
        self._socket.write(format_line(command, *params))

    def _handle_cap(self, message: IrcMessage) -> None:
        match message.param(1).upper():
            case "LS":
                pairs = (each.partition("=") for each in message.trailing.split())
                self._offered |= {name: value for name, _, value in pairs}
                if message.param(2) != "*":  # else there is more to come
                    self._request_capabilities()
            case "ACK":
                self._enabled_capabilities |= set(message.trailing.split())
                self._continue_after_cap()
            case "NAK":
                self._continue_after_cap()

    def _request_capabilities(self) -> None:
        wanted = _WANTED_CAPABILITIES & self._offered.keys()
        if self._password is not None:
            mechanisms = self._offered.get("sasl")
            if mechanisms is None or (mechanisms and "PLAIN" not in mechanisms.split(",")):
                raise self._sasl_missing_error()
            wanted |= {"sasl"}
        if wanted:
            self._send("CAP", "REQ", " ".join(sorted(wanted)))
        else:
            self._send("CAP", "END")

    def _continue_after_cap(self) -> None:
        if self._password is None:
            self._send("CAP", "END")
        elif "sasl" in self._enabled_capabilities:
            self._send("AUTHENTICATE", "PLAIN")
        else:
            raise self._sasl_missing_error()

    def _send_credentials(self, message: IrcMessage) -> None:
        """RFC 4616, in pieces; one that is full is followed by another, be that empty."""
        if message.trailing != "+" or self._password is None:
            return
        name = self._settings.username or self._settings.nick
        words = f"\0{name}\0{self._password.reveal()}".encode()
        encoded = base64.b64encode(words).decode()
        for start in range(0, len(encoded) + 1, _SASL_CHUNK_LENGTH):
            self._send("AUTHENTICATE", encoded[start : start + _SASL_CHUNK_LENGTH] or "+")

    def _handle_authenticated(self, _: IrcMessage) -> None:
        self._logged_in = True
        self._send("CAP", "END")

    def _handle_welcome(self, message: IrcMessage) -> None:
        if self._password is not None and not self._logged_in:
            raise self._sasl_missing_error()  # it never spoke of capabilities
        self._nick = message.param(0) or self._nick
        self._server_time = message.tags.get("time", "")

    def _handle_isupport(self, message: IrcMessage) -> None:
        for token in message.params[1:-1]:
            name, _, value = token.partition("=")
            if name.startswith("-"):
                self._features.pop(name[1:], None)
            else:
                self._features[name] = value

    def _try_next_nick(self, message: IrcMessage) -> None:
        wanted = self._settings.nick
        if len(self._nick) - len(wanted) >= _MAX_OTHER_NICKS:
            raise AccountDisconnected(
                f"{wanted} and the nicks beside it are taken ({message.trailing})"
            )
        self._nick += "_"
        self._send("NICK", self._nick)

    def _handle_bad_nick(self, message: IrcMessage) -> None:
        if self._nick != self._settings.nick:  # one that nobody asked for, and too long, perhaps
            raise AccountDisconnected(
                f"the nick {self._settings.nick} is taken, and so are those beside it"
            )
        raise ConnectRefused(
            f"the server does not take the nick {self._nick} ({message.trailing})",
            remedy=f"set another as {self._table}.nick",
        )

    def _handle_bad_server_password(self, message: IrcMessage) -> None:
        raise ConnectRefused(
            f"the server does not let us in with this password ({message.trailing})",
            remedy=f"set {self._table}.server_password to the one that the server asks for",
        )

    def _handle_ban(self, message: IrcMessage) -> None:
        raise ConnectRefused(
            f"the server has banned us ({message.trailing})",
            remedy="ask those who run the network",
        )

    def _handle_bad_password(self, message: IrcMessage) -> None:
        name = self._settings.username or self._settings.nick
        raise ConnectRefused(
            f"the network does not know the account {name} by this password ({message.trailing})",
            remedy=f"set {self._table}.username and {self._table}.password as they were registered",
        )

    def _sasl_missing_error(self) -> ConnectRefused:
        return ConnectRefused(
            "the server does not offer SASL PLAIN, which the password is for",
            remedy=f"take {self._table}.password out; where the server itself asks for one, "
            f"that is {self._table}.server_password",
        )

    def _handle_error(self, message: IrcMessage) -> None:
        if "password" in message.trailing.lower():  # not every server has a number for it
            self._handle_bad_server_password(message)
        raise AccountDisconnected(f"the server does not let us in: {message.trailing}")
