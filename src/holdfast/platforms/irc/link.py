"""The link: a socket to a server, over TLS as a rule, as lines in and lines out."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from holdfast.core.errors import AccountDisconnected, ConnectRefused
from holdfast.platforms.irc.plugin import IrcSettings
from holdfast.platforms.irc.wire import IrcMessage, parse_line

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
