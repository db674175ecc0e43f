"""People: who is behind a nick, and which nick somebody is behind.

A nick belongs to whoever holds it now. What names a person for good is an account, where the
network has them and tells of them (https://ircv3.net/specs/extensions/account-tag); else the whole
of nick, user and host.
"""

from collections.abc import Callable

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, Refused
from holdfast.platforms.irc.line import Line
from holdfast.platforms.irc.names import Names
from holdfast.platforms.irc.plugin import KnownBy
from holdfast.platforms.irc.wire import Heard

_FRESH = 60.0  # seconds for which somebody who spoke is taken to be there still
_MOST = 1000  # of whom it is remembered when they spoke; the others are asked for


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    nick: str
    at: float


class Whois:
    """Owns what the server says of one nick, as far as it has got.
    https://modern.ircdocs.horse/#whois-message"""

    def __init__(self, nick: str, names: Names) -> None:
        self._nick = nick
        self._names = names
        self.user = ""  # with the host
        self.account = ""
        self.absent = ""  # why nothing is said of it

    def hear(self, heard: Heard) -> bool | None:
        """True: that was all."""
        if not self._names.same(heard.param(1), self._nick):
            return None
        match heard.verb:
            case "311":
                self.user = f"{heard.param(2)}@{heard.param(3)}".lower()
            case "330":
                self.account = heard.param(2)
            case "401" | "406":
                self.absent = heard.last
        return True if heard.verb in ("318", "401", "406") else None


class People:
    """Owns who was seen on this connection, by what they are known by."""

    def __init__(self, line: Line, known_by: KnownBy, *, monotonic: Callable[[], float]) -> None:
        self._line = line
        self._known_by = known_by
        self._monotonic = monotonic
        self._seen: dict[str, Seen] = {}

    def id_of(self, heard: Heard) -> str:
        """An account has no "!" in it, and neither has a nick: nobody can pass for another."""
        if self._known_by is KnownBy.NICKS:
            return self._fold(heard.nick)
        account = heard.tags.get("account", "")
        return account if account not in ("", "*") else self._mask(heard.source)

    def saw(self, heard: Heard) -> None:
        person = self.id_of(heard)
        self._seen.pop(person, None)
        self._seen[person] = Seen(nick=heard.nick, at=self._monotonic())
        if len(self._seen) > _MOST:
            del self._seen[next(iter(self._seen))]

    def hear(self, heard: Heard) -> None:
        """Who goes, or is called otherwise from now on."""
        if heard.verb not in ("QUIT", "NICK"):
            return
        for person, seen in tuple(self._seen.items()):
            if not self._line.names.same(seen.nick, heard.nick):
                continue
            if heard.verb == "QUIT":
                del self._seen[person]
            else:
                self._seen[person] = Seen(nick=heard.param(0), at=seen.at)

    async def nick_of(self, person: str) -> str:
        """Whom a message to that person is to be sent to. Raises `Refused` where that would be
        somebody else by now, or nobody."""
        seen = self._seen.get(person)
        if seen is not None and seen.at + _FRESH > self._monotonic():
            return seen.nick
        nick = seen.nick if seen is not None else person.partition("!")[0]
        if self._known_by is KnownBy.NICKS:
            return nick
        whois = await self._whois(nick)
        if not self._is(person, whois):
            raise Refused(f"{nick} is not {person} any more, and gets nothing that is for them")
        return nick

    def _is(self, person: str, whois: Whois) -> bool:
        if "!" in person:  # the nick may be another by now, and was followed
            return whois.user == person.partition("!")[2]
        # A server that never tells of accounts has no other name for anybody than the nick.
        told = whois.account or "account-tag" in self._line.enabled
        return self._line.names.same(whois.account, person) if told else True

    async def _whois(self, nick: str) -> Whois:
        whois = Whois(nick, self._line.names)
        try:
            await self._line.asked(("WHOIS", nick), whois.hear)
        except OutcomeUnknown as error:  # nothing was sent to anybody by this
            raise NotConnected(f"nobody says who {nick} is: {error}") from error
        if whois.absent:
            raise Refused(f"{nick} is not there ({whois.absent})")
        return whois

    def _mask(self, source: str) -> str:
        nick, _, rest = source.partition("!")
        return f"{self._fold(nick)}!{rest.lower()}"

    def _fold(self, name: str) -> str:
        return self._line.names.fold(name)
