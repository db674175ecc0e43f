"""A connection to an IRC server: socket, registration and login, flood limit, and a client that sends and asks.

https://modern.ircdocs.horse/#connection-registration,
https://ircv3.net/specs/extensions/capability-negotiation and https://ircv3.net/specs/extensions/sasl-3.1.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from holdfast.core.config.settings import account_table
from holdfast.core.errors import AccountDisconnected, ConnectRefused, NotConnected, OutcomeUnknown
from holdfast.core.secrets import Secret
from holdfast.platforms.irc.events import IrcMessage, IrcNames, format_line, parse_line
from holdfast.platforms.irc.plugin import IrcSettings

# MERGED holdfast.platforms.irc.link: The link: a socket to a server, over TLS as a rule, as lines in and lines out.
# Tags have up to 8191 bytes, and what follows them 512; some servers are more generous.
_MAX_LINE_BYTES = 32 * 1024
_CLOSE_TIMEOUT = 1.0  # seconds: a half-open line takes none


class IrcSocket:
    """Owns the open socket. Whatever is heard is a sign of life."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        on_activity: Callable[[], None],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._on_activity = on_activity

    @property
    def is_open(self) -> bool:
        return not self._writer.is_closing()

    async def read_message(self) -> IrcMessage:
        """The next thing that is said. Raises `AccountDisconnected`."""
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                raise AccountDisconnected("the server has closed the connection") from None
            except asyncio.LimitOverrunError:
                raise AccountDisconnected("the server says a line that has no end") from None
            except OSError as error:
                raise AccountDisconnected(f"the connection broke: {error}") from error
            self._on_activity()
            if (heard := parse_line(raw)) is not None:
                return heard

    def write(self, line: bytes) -> None:
        """Nothing is waited for: a few hundred bytes in seconds do not pile up."""
        self._writer.write(line)

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._writer.wait_closed()
        self._writer.transport.abort()


@asynccontextmanager
async def open_socket(
    settings: IrcSettings, on_activity: Callable[[], None]
) -> AsyncIterator[IrcSocket]:
    """Raises `AccountDisconnected` where there is no way to the server, or it is not who it says."""
    host, port = settings.address
    trust = await asyncio.to_thread(_make_tls_context, settings) if settings.tls else None
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=trust, limit=_MAX_LINE_BYTES)
    except ssl.SSLCertVerificationError as error:
        raise AccountDisconnected(
            f"{host}:{port} does not prove who it is: {error.verify_message}. Where it has a "
            "certificate of its own making, name that as ca_file"
        ) from error
    except ssl.SSLError as error:
        raise AccountDisconnected(f"{host}:{port} does not speak TLS ({error.reason})") from error
    except OSError as error:
        reason = str(error) or "it hung up"
        raise AccountDisconnected(f"{host}:{port} cannot be reached: {reason}") from error
    link = IrcSocket(reader, writer, on_activity)
    try:
        yield link
    finally:
        await link.close()


def _make_tls_context(settings: IrcSettings) -> ssl.SSLContext:
    """In a thread: it reads every authority that this machine knows."""
    file = Path(settings.ca_file).expanduser() if settings.ca_file else None
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise ConnectRefused(
            f"the certificate {settings.ca_file} cannot be used: {error}",
            remedy="set ca_file to a file in PEM form that the gateway can read",
        ) from error


# MERGED holdfast.platforms.irc.pacing: Pacing: how many lines a server is sent, so that it never takes us for a flood.
#
# RFC 1459, 8.10: a client may be some lines ahead, and is granted one more every two seconds. Who is
# further ahead is thrown out.
Sleep = Callable[[float], Awaitable[None]]


class FloodLimiter:
    """Owns what is left of the budget of one connection."""

    def __init__(
        self,
        *,
        burst: int,
        seconds_per_line: float,
        monotonic: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._burst = burst
        self._seconds_per_line = seconds_per_line
        self._monotonic = monotonic
        self._sleep = sleep
        self._free_at = monotonic()  # when the whole budget is there again
        self._lock = asyncio.Lock()

    @property
    def lines_ahead(self) -> float:
        """Lines by which we are ahead of what is granted."""
        if not self._seconds_per_line:
            return 0.0
        return max(0.0, self._free_at - self._monotonic()) / self._seconds_per_line

    @property
    def has_spare(self) -> bool:
        """Whether a line that nobody would miss may be sent."""
        return self.lines_ahead < self._burst / 2

    async def acquire(self) -> None:
        """Returns when one more line may be sent, in the order of asking."""
        async with self._lock:
            while (over := self.lines_ahead - (self._burst - 1)) > 0:
                await self._sleep(over * self._seconds_per_line)
            self._free_at = max(self._free_at, self._monotonic()) + self._seconds_per_line


# MERGED holdfast.platforms.irc.greeting: Greeting: how a connection is registered, from the first word to the end of the welcome.
#
# https://modern.ircdocs.horse/#connection-registration,
# https://ircv3.net/specs/extensions/capability-negotiation and https://ircv3.net/specs/extensions/sasl-3.1.
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


# MERGED holdfast.platforms.irc.line: The line: a registered connection, on which things are said, asked and heard.
MessageListener = Callable[[IrcMessage], None]
T = TypeVar("T")

RESPONSE_TIMEOUT = 30.0  # seconds for an answer


class IrcClient:
    """Owns the link, who we are on it, and who listens. Everything but a PONG goes at the pace
    that the server bears."""

    def __init__(
        self,
        socket: IrcSocket,
        welcome: ServerWelcome,
        limiter: FloodLimiter,
        *,
        timeout: float = RESPONSE_TIMEOUT,
    ) -> None:
        self.nick = welcome.nick
        self.capabilities = welcome.capabilities
        self.features = welcome.features
        self.names = IrcNames(welcome.features)
        self.limiter = limiter
        self._socket = socket
        self._timeout = timeout
        self._listeners: list[MessageListener] = []
        self._tokens = count(1)
        self._ended: asyncio.Future[AccountDisconnected] = (
            asyncio.get_running_loop().create_future()
        )

    def is_me(self, nick: str) -> bool:
        return self.names.is_same(nick, self.nick)

    def next_token(self) -> str:
        """One that nothing else on this line has."""
        return f"h{next(self._tokens)}"

    async def listen(self) -> AccountDisconnected:
        """Until the line breaks: why. An answer that somebody waits for will not come then."""
        why = AccountDisconnected("we have left")
        try:
            while True:
                self._dispatch(await self._socket.read_message())
        except AccountDisconnected as error:
            why = error
        finally:
            self._ended.set_result(why)
        return why

    @contextmanager
    def subscribe(self, listener: MessageListener) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def send(self, command: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        """Raises `NotConnected`: then nothing was written."""
        await self.limiter.acquire()
        if self._ended.done() or not self._socket.is_open:
            raise NotConnected("there is no connection to the server")
        self._socket.write(format_line(command, *params, tags=tags or {}))

    async def request(self, command: Sequence[str], match: Callable[[IrcMessage], T | None]) -> T:
        """What `answer` makes of something that is said from now on. Raises `NotConnected` where
        nothing was asked, and `OutcomeUnknown` where nothing is answered."""
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def ear(heard: IrcMessage) -> None:
            if not found.done() and (told := match(heard)) is not None:
                found.set_result(told)

        with self.subscribe(ear):
            await self.send(*command)
            return await self.wait_for(found)

    async def wait_for(self, future: asyncio.Future[T]) -> T:
        """Raises `OutcomeUnknown` where the line breaks before it is there, or stays silent."""
        over = self._ended
        either: set[asyncio.Future[Any]] = {future, over}
        await asyncio.wait(either, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        why = str(over.result()) if over.done() else f"no answer within {self._timeout:.0f} s"
        raise OutcomeUnknown(f"the server did not say what became of it: {why}")

    async def round_trip(self) -> None:
        """What was said before this has been heard by the server when it returns: a server takes
        the lines of a client in their order."""
        token = self.next_token()
        await self.request(("PING", token), lambda heard: is_pong(heard, token) or None)

    def quit(self) -> None:
        """Say goodbye, at once, and wait for nothing."""
        if self._socket.is_open:
            self._socket.write(format_line("QUIT", "until later"))

    def _dispatch(self, message: IrcMessage) -> None:
        if message.command == "PING":
            self._socket.write(format_line("PONG", message.trailing))
        elif message.command == "ERROR":
            raise AccountDisconnected(f"the server ends the connection: {message.trailing}")
        elif message.command == "NICK" and self.is_me(message.nick):
            self.nick = message.param(0)
        for ear in tuple(self._listeners):
            ear(message)


def is_pong(message: IrcMessage, token: str) -> bool:
    return message.command == "PONG" and message.trailing == token
