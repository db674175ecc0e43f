"""Users of one connection: who is behind a nick, and which nick a user has now.

A nick belongs to whoever holds it now. What names a person for good is an account, where the network has accounts
(https://ircv3.net/specs/extensions/account-tag); else the whole of nick, user and host.
"""

from collections.abc import Callable

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.platforms.irc.client import IrcClient
from holdfast.platforms.irc.events import IrcMessage, IrcNames
from holdfast.platforms.irc.plugin import IdentifyBy

_FRESH_SECONDS = 60.0  # seconds for which somebody who spoke is taken to be there still
_MAX_USERS = 1000  # of whom it is remembered when they spoke; the others are asked for


class SeenUser(msgspec.Struct, frozen=True, kw_only=True):
    nick: str
    at: float


class Whois:
    """Owns what the server says of one nick, as far as it has got.
    https://modern.ircdocs.horse/#whois-message"""

    def __init__(self, nick: str, names: IrcNames) -> None:
        self._nick = nick
        self._names = names
        self.user_and_host = ""  # with the host
        self.account = ""
        self.absence_reason = ""  # why nothing is said of it

    def handle_message(self, message: IrcMessage) -> bool | None:
        """True: that was all."""
        if not self._names.is_same(message.param(1), self._nick):
            return None
        match message.command:
            case "311":
                self.user_and_host = f"{message.param(2)}@{message.param(3)}".lower()
            case "330":
                self.account = message.param(2)
            case "401" | "406":
                self.absence_reason = message.trailing
        return True if message.command in ("318", "401", "406") else None


class UserDirectory:
    """Owns who was seen on this connection, by what they are known by."""

    def __init__(
        self, client: IrcClient, identify_by: IdentifyBy, *, monotonic: Callable[[], float]
    ) -> None:
        self._client = client
        self._identify_by = identify_by
        self._monotonic = monotonic
        self._seen: dict[str, SeenUser] = {}

    def user_id_of(self, message: IrcMessage) -> str:
        """An account has no "!" in it, and neither has a nick: nobody can pass for another."""
        if self._identify_by is IdentifyBy.NICKS:
            return self._fold(message.nick)
        account = message.tags.get("account", "")
        return account if account not in ("", "*") else self._hostmask(message.source)

    def remember(self, message: IrcMessage) -> None:
        person = self.user_id_of(message)
        self._seen.pop(person, None)
        self._seen[person] = SeenUser(nick=message.nick, at=self._monotonic())
        if len(self._seen) > _MAX_USERS:
            del self._seen[next(iter(self._seen))]

    def handle_message(self, message: IrcMessage) -> None:
        """Who goes, or is called otherwise from now on."""
        if message.command not in ("QUIT", "NICK"):
            return
        for person, seen in tuple(self._seen.items()):
            if not self._client.names.is_same(seen.nick, message.nick):
                continue
            if message.command == "QUIT":
                del self._seen[person]
            else:
                self._seen[person] = SeenUser(nick=message.param(0), at=seen.at)

    async def current_nick(self, user_id: str) -> str:
        """Whom a message to that person is to be sent to. Raises `Refused` where that would be
        somebody else by now, or nobody."""
        seen = self._seen.get(user_id)
        if seen is not None and seen.at + _FRESH_SECONDS > self._monotonic():
            return seen.nick
        nick = seen.nick if seen is not None else user_id.partition("!")[0]
        if self._identify_by is IdentifyBy.NICKS:
            return nick
        whois = await self._whois(nick)
        if not self._is_same_user(user_id, whois):
            raise SendRejected(
                f"{nick} is not {user_id} any more, and gets nothing that is for them"
            )
        return nick

    def _is_same_user(self, user_id: str, whois: Whois) -> bool:
        if "!" in user_id:  # the nick may be another by now, and was followed
            return whois.user_and_host == user_id.partition("!")[2]
        # A server that never tells of accounts has no other name for anybody than the nick.
        told = whois.account or "account-tag" in self._client.capabilities
        return self._client.names.is_same(whois.account, user_id) if told else True

    async def _whois(self, nick: str) -> Whois:
        whois = Whois(nick, self._client.names)
        try:
            await self._client.request(("WHOIS", nick), whois.handle_message)
        except OutcomeUnknown as error:  # nothing was sent to anybody by this
            raise NotConnected(f"nobody says who {nick} is: {error}") from error
        if whois.absence_reason:
            raise SendRejected(f"{nick} is not there ({whois.absence_reason})")
        return whois

    def _hostmask(self, source: str) -> str:
        nick, _, rest = source.partition("!")
        return f"{self._fold(nick)}!{rest.lower()}"

    def _fold(self, name: str) -> str:
        return self._client.names.fold(name)
