"""Users of one connection: who is behind a nick, and which nick a user has now.

A nick belongs to the user who holds it now. A user is identified by an account, if the network has
accounts (https://ircv3.net/specs/extensions/account-tag), else by nick!user@host.
"""

from collections.abc import Callable

import msgspec

from holdfast.core.errors import NotConnected, OutcomeUnknown, SendRejected
from holdfast.platforms.irc.client import IrcClient
from holdfast.platforms.irc.events import IrcMessage, IrcNames
from holdfast.platforms.irc.plugin import IdentifyBy

_FRESH_SECONDS = 60.0  # after a message, its author is assumed to be there still
_MAX_USERS = 1000  # remembered; others are looked up with WHOIS


class SeenUser(msgspec.Struct, frozen=True, kw_only=True):
    nick: str
    at: float


class Whois:
    """Collects the answer to one WHOIS.
    https://modern.ircdocs.horse/#whois-message"""

    def __init__(self, nick: str, names: IrcNames) -> None:
        self._nick = nick
        self._names = names
        self.user_and_host = ""
        self.account = ""
        self.absence_reason = ""  # why there is no such user

    def handle_message(self, message: IrcMessage) -> bool | None:
        """True at the end of the answer."""
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
    """Owns the users seen on this connection, by user id."""

    def __init__(
        self, client: IrcClient, identify_by: IdentifyBy, *, monotonic: Callable[[], float]
    ) -> None:
        self._client = client
        self._identify_by = identify_by
        self._monotonic = monotonic
        self._seen: dict[str, SeenUser] = {}

    def user_id_of(self, message: IrcMessage) -> str:
        """Neither an account nor a nick contains "!", so no user can get the id of another."""
        if self._identify_by is IdentifyBy.NICKS:
            return self._fold(message.nick)
        account = message.tags.get("account", "")
        return account if account not in ("", "*") else self._hostmask(message.source)

    def remember(self, message: IrcMessage) -> None:
        user_id = self.user_id_of(message)
        self._seen.pop(user_id, None)
        self._seen[user_id] = SeenUser(nick=message.nick, at=self._monotonic())
        if len(self._seen) > _MAX_USERS:
            del self._seen[next(iter(self._seen))]

    def handle_message(self, message: IrcMessage) -> None:
        """Follows users who quit or change their nick."""
        if message.command not in ("QUIT", "NICK"):
            return
        for user_id, seen in tuple(self._seen.items()):
            if not self._client.names.is_same(seen.nick, message.nick):
                continue
            if message.command == "QUIT":
                del self._seen[user_id]
            else:
                self._seen[user_id] = SeenUser(nick=message.param(0), at=seen.at)

    async def current_nick(self, user_id: str) -> str:
        """The nick to send a message for this user to. Raises `SendRejected` if the nick belongs to
        another user by now, or to none."""
        seen = self._seen.get(user_id)
        if seen is not None and seen.at + _FRESH_SECONDS > self._monotonic():
            return seen.nick
        nick = seen.nick if seen is not None else user_id.partition("!")[0]
        if self._identify_by is IdentifyBy.NICKS:
            return nick
        whois = await self._whois(nick)
        if not self._is_same_user(user_id, whois):
            raise SendRejected(
                "the nick {nick} belongs to another person than {user_id} now, so the "
                "message was not sent. It can be sent once that person has written to the "
                "bot again",
                nick=nick,
                user_id=user_id,
            )
        return nick

    def _is_same_user(self, user_id: str, whois: Whois) -> bool:
        if "!" in user_id:  # nick changes are followed, so only user and host are compared
            return whois.user_and_host == user_id.partition("!")[2]
        # A server without accounts identifies users by nick only.
        has_accounts = whois.account or "account-tag" in self._client.capabilities
        return self._client.names.is_same(whois.account, user_id) if has_accounts else True

    async def _whois(self, nick: str) -> Whois:
        whois = Whois(nick, self._client.names)
        try:
            await self._client.request(("WHOIS", nick), whois.handle_message)
        except OutcomeUnknown as error:  # no message was sent
            raise NotConnected(
                "could not look up {nick}: {error}", nick=nick, error=error
            ) from error
        if whois.absence_reason:
            raise SendRejected(
                "{nick} is not online ({reason})", nick=nick, reason=whois.absence_reason
            )
        return whois

    def _hostmask(self, source: str) -> str:
        nick, _, rest = source.partition("!")
        return f"{self._fold(nick)}!{rest.lower()}"

    def _fold(self, name: str) -> str:
        return self._client.names.fold(name)
