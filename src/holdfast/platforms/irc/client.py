"""A connection to an IRC server: socket, registration and login, flood limit, and the client.

https://modern.ircdocs.horse/#connection-registration,
https://ircv3.net/specs/extensions/capability-negotiation and
https://ircv3.net/specs/extensions/sasl-3.1.
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

RESPONSE_TIMEOUT = 30.0  # seconds
USERNAME = "holdfast"
# Tags have up to 8191 bytes and the rest 512; some servers allow more.
_MAX_LINE_BYTES = 32 * 1024
_CLOSE_TIMEOUT = 1.0  # seconds: a half-open connection never closes
_REQUESTED_CAPABILITIES = frozenset(
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
_SASL_CHUNK_LENGTH = 400  # characters of base64 in one AUTHENTICATE line
_MAX_OTHER_NICKS = 5  # tried if the configured nick is taken

MessageListener = Callable[[IrcMessage], None]
Sleep = Callable[[float], Awaitable[None]]
T = TypeVar("T")


class IrcSocket:
    """Owns the open socket; reads and writes lines. Each received line counts as activity."""

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
        """The next message. Raises `AccountDisconnected`."""
        while True:
            try:
                raw = await self._reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                raise AccountDisconnected("the server has closed the connection") from None
            except asyncio.LimitOverrunError:
                raise AccountDisconnected(
                    "the server sent a line of more than {limit} bytes", limit=_MAX_LINE_BYTES
                ) from None
            except OSError as error:
                raise AccountDisconnected("lost the connection: {error}", error=error) from error
            self._on_activity()
            if (message := parse_line(raw)) is not None:
                return message

    def write(self, line: bytes) -> None:
        """Does not wait: a few hundred bytes every few seconds do not accumulate."""
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
    """Raises `AccountDisconnected` if there is no connection or no valid certificate."""
    host, port = settings.address
    tls_context = await asyncio.to_thread(_make_tls_context, settings) if settings.tls else None
    try:
        reader, writer = await asyncio.open_connection(
            host, port, ssl=tls_context, limit=_MAX_LINE_BYTES
        )
    except ssl.SSLCertVerificationError as error:
        raise AccountDisconnected(
            "the certificate of {host}:{port} cannot be verified: {reason}. If it is "
            "self-signed, set ca_file to it",
            host=host,
            port=port,
            reason=error.verify_message,
        ) from error
    except ssl.SSLError as error:
        raise AccountDisconnected(
            "{host}:{port} does not speak TLS ({reason})", host=host, port=port, reason=error.reason
        ) from error
    except OSError as error:
        reason = str(error) or "it closed the connection"
        raise AccountDisconnected(
            "{host}:{port} cannot be reached: {reason}", host=host, port=port, reason=reason
        ) from error
    connection = IrcSocket(reader, writer, on_activity)
    try:
        yield connection
    finally:
        await connection.close()


def _make_tls_context(settings: IrcSettings) -> ssl.SSLContext:
    """Runs in a thread: it reads all certificate authorities of this machine."""
    file = Path(settings.ca_file).expanduser() if settings.ca_file else None
    try:
        return ssl.create_default_context(cafile=file)
    except (OSError, ssl.SSLError) as error:
        raise ConnectRefused(
            "the certificate {ca_file} cannot be used: {error}",
            ca_file=settings.ca_file,
            error=error,
            remedy="Set ca_file to a file in PEM form that the gateway can read.",
        ) from error


class FloodLimiter:
    """Owns the line budget of one connection, so that the server does not disconnect it for
    flooding.

    RFC 1459, 8.10: a client may send some lines at once, and is then granted one more every two
    seconds. A server disconnects a client that sends more."""

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
        self._free_at = monotonic()  # when the whole budget is available again
        self._lock = asyncio.Lock()

    @property
    def lines_ahead(self) -> float:
        """How many lines we are ahead of what is granted."""
        if not self._seconds_per_line:
            return 0.0
        return max(0.0, self._free_at - self._monotonic()) / self._seconds_per_line

    @property
    def has_spare(self) -> bool:
        """Whether an optional line may be sent."""
        return self.lines_ahead < self._burst / 2

    async def acquire(self) -> None:
        """Returns when one more line may be sent, in the order of the calls."""
        async with self._lock:
            while (over := self.lines_ahead - (self._burst - 1)) > 0:
                await self._sleep(over * self._seconds_per_line)
            self._free_at = max(self._free_at, self._monotonic()) + self._seconds_per_line


class ServerWelcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a server after registration."""

    nick: str  # ours, which may differ from the configured one
    capabilities: frozenset[str]  # of IRCv3, enabled
    features: Mapping[str, str]  # from RPL_ISUPPORT
    server_time: str  # of the welcome, by the clock of the server; "": unknown


class IrcRegistration:
    """Owns one registration: the capabilities offered and enabled, and the nick that is tried."""

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
        """Raises `AccountDisconnected`, or `ConnectRefused` if a person has to fix something."""
        self._send("CAP", "LS", "302")
        if self._server_password is not None:
            self._send("PASS", self._server_password.reveal())
        self._send("NICK", self._nick)
        self._send("USER", USERNAME, "0", "*", "Holdfast")
        while True:
            message = await self._socket.read_message()
            if message.command in ("376", "422"):  # end of the message of the day, or no such file
                break
            if (handle := self._handlers().get(message.command)) is not None:
                handle(message)
        return ServerWelcome(
            nick=self._nick,
            capabilities=frozenset(self._enabled_capabilities),
            features=dict(self._features),
            server_time=self._server_time,
        )

    def _handlers(self) -> Mapping[str, Callable[[IrcMessage], None]]:
        return {
            "PING": lambda message: self._send("PONG", message.trailing),
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
                if message.param(2) != "*":  # otherwise more lines follow
                    self._request_capabilities()
            case "ACK":
                self._enabled_capabilities |= set(message.trailing.split())
                self._continue_after_cap()
            case "NAK":
                self._continue_after_cap()

    def _request_capabilities(self) -> None:
        requested = _REQUESTED_CAPABILITIES & self._offered.keys()
        if self._password is not None:
            mechanisms = self._offered.get("sasl")
            if mechanisms is None or (mechanisms and "PLAIN" not in mechanisms.split(",")):
                raise self._sasl_missing_error()
            requested |= {"sasl"}
        if requested:
            self._send("CAP", "REQ", " ".join(sorted(requested)))
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
        """RFC 4616, in chunks. A full chunk is followed by another one, even if that is empty."""
        if message.trailing != "+" or self._password is None:
            return
        name = self._settings.username or self._settings.nick
        credentials = f"\0{name}\0{self._password.reveal()}".encode()
        encoded = base64.b64encode(credentials).decode()
        for start in range(0, len(encoded) + 1, _SASL_CHUNK_LENGTH):
            self._send("AUTHENTICATE", encoded[start : start + _SASL_CHUNK_LENGTH] or "+")

    def _handle_authenticated(self, _: IrcMessage) -> None:
        self._logged_in = True
        self._send("CAP", "END")

    def _handle_welcome(self, message: IrcMessage) -> None:
        if self._password is not None and not self._logged_in:
            raise self._sasl_missing_error()  # the server did not answer CAP
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
        nick = self._settings.nick
        if len(self._nick) - len(nick) >= _MAX_OTHER_NICKS:
            raise AccountDisconnected(
                "the nick {nick} and its alternatives are taken ({trailing})",
                nick=nick,
                trailing=message.trailing,
            )
        self._nick += "_"
        self._send("NICK", self._nick)

    def _handle_bad_nick(self, message: IrcMessage) -> None:
        if self._nick != self._settings.nick:  # an alternative that may be too long
            raise AccountDisconnected(
                "the nick {nick} and its alternatives are taken. Set another nick, or wait "
                "until it is free",
                nick=self._settings.nick,
            )
        raise ConnectRefused(
            "the server does not accept the nick {nick} ({trailing})",
            nick=self._nick,
            trailing=message.trailing,
            table=self._table,
            remedy="Set {table}.nick to another nick.",
        )

    def _handle_bad_server_password(self, message: IrcMessage) -> None:
        raise ConnectRefused(
            "the server does not accept the server password ({trailing})",
            trailing=message.trailing,
            table=self._table,
            remedy="Set {table}.server_password to the password of the server.",
        )

    def _handle_ban(self, message: IrcMessage) -> None:
        raise ConnectRefused(
            "the server has banned us ({trailing})",
            trailing=message.trailing,
            remedy="Contact the operators of the network.",
        )

    def _handle_bad_password(self, message: IrcMessage) -> None:
        name = self._settings.username or self._settings.nick
        raise ConnectRefused(
            "the network does not accept the password of account {name} ({trailing})",
            name=name,
            trailing=message.trailing,
            table=self._table,
            remedy="Set {table}.username and {table}.password as registered.",
        )

    def _sasl_missing_error(self) -> ConnectRefused:
        return ConnectRefused(
            "the server does not offer SASL PLAIN, which the password is for",
            table=self._table,
            remedy="Remove {table}.password; for a password of the server itself, set "
            "{table}.server_password.",
        )

    def _handle_error(self, message: IrcMessage) -> None:
        if "password" in message.trailing.lower():  # not every server sends 464
            self._handle_bad_server_password(message)
        raise AccountDisconnected(
            "the server refused the connection: {trailing}", trailing=message.trailing
        )


class IrcClient:
    """A registered connection. Owns our nick and the listeners. Every line except PONG waits for
    the flood limit."""

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
        """Unique on this connection."""
        return f"h{next(self._tokens)}"

    async def listen(self) -> AccountDisconnected:
        """Dispatches messages until the connection is lost, and returns why. Pending requests then
        fail."""
        reason = AccountDisconnected("we disconnected")
        try:
            while True:
                self._dispatch(await self._socket.read_message())
        except AccountDisconnected as error:
            reason = error
        finally:
            self._ended.set_result(reason)
        return reason

    @contextmanager
    def subscribe(self, listener: MessageListener) -> Iterator[None]:
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def send(self, command: str, *params: str, tags: Mapping[str, str] | None = None) -> None:
        """Raises `NotConnected` if nothing was written."""
        await self.limiter.acquire()
        if self._ended.done() or not self._socket.is_open:
            raise NotConnected("there is no connection to the server")
        self._socket.write(format_line(command, *params, tags=tags or {}))

    async def request(self, command: Sequence[str], match: Callable[[IrcMessage], T | None]) -> T:
        """Sends the command and returns the first result of `match` for a later message that is not
        None. Raises `NotConnected` if nothing was sent, and `OutcomeUnknown` without an answer."""
        found: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def listener(message: IrcMessage) -> None:
            if not found.done() and (result := match(message)) is not None:
                found.set_result(result)

        with self.subscribe(listener):
            await self.send(*command)
            return await self.wait_for(found)

    async def wait_for(self, future: asyncio.Future[T]) -> T:
        """Raises `OutcomeUnknown` if the connection is lost before, or after the timeout."""
        either: set[asyncio.Future[Any]] = {future, self._ended}
        await asyncio.wait(either, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED)
        if future.done():
            return future.result()
        future.cancel()
        why = (
            str(self._ended.result())
            if self._ended.done()
            else f"no answer within {self._timeout:.0f} s"
        )
        raise OutcomeUnknown("the server did not confirm it: {why}", why=why)

    async def round_trip(self) -> None:
        """When this returns, the server has processed everything sent before: it processes the
        lines of a client in order."""
        token = self.next_token()
        await self.request(("PING", token), lambda message: is_pong(message, token) or None)

    def quit(self) -> None:
        """Sends QUIT without waiting."""
        if self._socket.is_open:
            self._socket.write(format_line("QUIT", "until later"))

    def _dispatch(self, message: IrcMessage) -> None:
        if message.command == "PING":
            self._socket.write(format_line("PONG", message.trailing))
        elif message.command == "ERROR":
            raise AccountDisconnected(
                "the server closed the connection: {trailing}", trailing=message.trailing
            )
        elif message.command == "NICK" and self.is_me(message.nick):
            self.nick = message.param(0)
        for listener in tuple(self._listeners):
            listener(message)


def is_pong(message: IrcMessage, token: str) -> bool:
    return message.command == "PONG" and message.trailing == token
