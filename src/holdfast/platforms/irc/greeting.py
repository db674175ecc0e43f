"""Greeting: how a connection is registered, from the first word to the end of the welcome.

https://modern.ircdocs.horse/#connection-registration,
https://ircv3.net/specs/extensions/capability-negotiation and https://ircv3.net/specs/extensions/sasl-3.1.
"""

import base64
from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.config.settings import table_of
from holdfast.core.errors import ConnectRefused, LineLost
from holdfast.core.secret import Secret
from holdfast.platforms.irc.link import Link
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.wire import Heard, written

USER = "holdfast"
_WANTED = frozenset(
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
_CHUNK = 400  # signs of base64 in one line of SASL
_OTHER_NICKS = 5  # that are tried where the first one is taken


class Welcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a server once it has let us in."""

    nick: str  # the one we have, which may not be the one we wanted
    enabled: frozenset[str]  # of what IRCv3 has
    features: Mapping[str, str]  # what it says of itself
    at: str  # when that was, by its own clock; "": it does not say


class Greeting:
    """Owns one registration: what was offered, what was agreed on, and which nick is tried."""

    def __init__(
        self, link: Link, settings: IrcSettings, secrets: Mapping[str, Secret], *, account: str
    ) -> None:
        self._link = link
        self._settings = settings
        self._password = secrets.get("password")
        self._server_password = secrets.get("server_password")
        self._table = table_of("irc", account)
        self._nick = settings.nick
        self._offered: dict[str, str] = {}
        self._enabled: set[str] = set()
        self._features: dict[str, str] = {}
        self._logged_in = False
        self._at = ""

    async def welcomed(self) -> Welcome:
        """Raises `LineLost`, and `ConnectRefused` where a person has to mend something."""
        self._say("CAP", "LS", "302")
        if self._server_password is not None:
            self._say("PASS", self._server_password.reveal())
        self._say("NICK", self._nick)
        self._say("USER", USER, "0", "*", "Holdfast")
        while True:
            heard = await self._link.hear()
            if heard.verb in ("376", "422"):  # the message of the day is over, or there is none
                break
            if (answer := self._answers().get(heard.verb)) is not None:
                answer(heard)
        return Welcome(
            nick=self._nick,
            enabled=frozenset(self._enabled),
            features=dict(self._features),
            at=self._at,
        )

    def _answers(self) -> Mapping[str, Callable[[Heard], None]]:
        return {
            "PING": lambda heard: self._say("PONG", heard.last),
            "ERROR": self._thrown_out,
            "CAP": self._capabilities,
            "AUTHENTICATE": self._authenticate,
            "001": self._let_in,
            "005": self._described,
            "432": self._bad_nick,
            "433": self._next_nick,
            "436": self._next_nick,
            "437": self._next_nick,
            "464": self._bad_server_password,
            "465": self._banned,
            "903": self._authenticated,
            "907": self._authenticated,
            **dict.fromkeys(("902", "904", "905", "906", "908"), self._bad_password),
        }

    def _say(self, verb: str, *params: str) -> None:
        self._link.write(written(verb, *params))

    def _capabilities(self, heard: Heard) -> None:
        match heard.param(1).upper():
            case "LS":
                pairs = (each.partition("=") for each in heard.last.split())
                self._offered |= {name: value for name, _, value in pairs}
                if heard.param(2) != "*":  # else there is more to come
                    self._agree()
            case "ACK":
                self._enabled |= set(heard.last.split())
                self._proceed()
            case "NAK":
                self._proceed()

    def _agree(self) -> None:
        wanted = _WANTED & self._offered.keys()
        if self._password is not None:
            mechanisms = self._offered.get("sasl")
            if mechanisms is None or (mechanisms and "PLAIN" not in mechanisms.split(",")):
                raise self._no_sasl()
            wanted |= {"sasl"}
        if wanted:
            self._say("CAP", "REQ", " ".join(sorted(wanted)))
        else:
            self._say("CAP", "END")

    def _proceed(self) -> None:
        if self._password is None:
            self._say("CAP", "END")
        elif "sasl" in self._enabled:
            self._say("AUTHENTICATE", "PLAIN")
        else:
            raise self._no_sasl()

    def _authenticate(self, heard: Heard) -> None:
        """RFC 4616, in pieces; one that is full is followed by another, be that empty."""
        if heard.last != "+" or self._password is None:
            return
        name = self._settings.username or self._settings.nick
        words = f"\0{name}\0{self._password.reveal()}".encode()
        encoded = base64.b64encode(words).decode()
        for start in range(0, len(encoded) + 1, _CHUNK):
            self._say("AUTHENTICATE", encoded[start : start + _CHUNK] or "+")

    def _authenticated(self, _: Heard) -> None:
        self._logged_in = True
        self._say("CAP", "END")

    def _let_in(self, heard: Heard) -> None:
        if self._password is not None and not self._logged_in:
            raise self._no_sasl()  # it never spoke of capabilities
        self._nick = heard.param(0) or self._nick
        self._at = heard.tags.get("time", "")

    def _described(self, heard: Heard) -> None:
        for token in heard.params[1:-1]:
            name, _, value = token.partition("=")
            if name.startswith("-"):
                self._features.pop(name[1:], None)
            else:
                self._features[name] = value

    def _next_nick(self, heard: Heard) -> None:
        wanted = self._settings.nick
        if len(self._nick) - len(wanted) >= _OTHER_NICKS:
            raise LineLost(f"{wanted} and the nicks beside it are taken ({heard.last})")
        self._nick += "_"
        self._say("NICK", self._nick)

    def _bad_nick(self, heard: Heard) -> None:
        if self._nick != self._settings.nick:  # one that nobody asked for, and too long, perhaps
            raise LineLost(f"the nick {self._settings.nick} is taken, and so are those beside it")
        raise ConnectRefused(
            f"the server does not take the nick {self._nick} ({heard.last})",
            remedy=f"set another as {self._table}.nick",
        )

    def _bad_server_password(self, heard: Heard) -> None:
        raise ConnectRefused(
            f"the server does not let us in with this password ({heard.last})",
            remedy=f"set {self._table}.server_password to the one that the server asks for",
        )

    def _banned(self, heard: Heard) -> None:
        raise ConnectRefused(
            f"the server has banned us ({heard.last})",
            remedy="ask those who run the network",
        )

    def _bad_password(self, heard: Heard) -> None:
        name = self._settings.username or self._settings.nick
        raise ConnectRefused(
            f"the network does not know the account {name} by this password ({heard.last})",
            remedy=f"set {self._table}.username and {self._table}.password as they were registered",
        )

    def _no_sasl(self) -> ConnectRefused:
        return ConnectRefused(
            "the server does not offer SASL PLAIN, which the password is for",
            remedy=f"take {self._table}.password out; where the server itself asks for one, "
            f"that is {self._table}.server_password",
        )

    def _thrown_out(self, heard: Heard) -> None:
        if "password" in heard.last.lower():  # not every server has a number for it
            self._bad_server_password(heard)
        raise LineLost(f"the server does not let us in: {heard.last}")
