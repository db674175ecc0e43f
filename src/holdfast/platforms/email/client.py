"""The IMAP connection: socket, TLS, login, IDLE (RFC 2177), and a mailbox that is used from the event loop.

Importing this module imports imap_tools.
"""

import asyncio
import imaplib
import re
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import date
from email.message import Message
from email.parser import BytesHeaderParser
from time import mktime
from typing import TypeVar

import msgspec
from imap_tools import BaseMailBox, MailboxFolderSelectError, MailboxLoginError
from imap_tools.errors import ImapToolsError

from holdfast.core.errors import AccountDisconnected, ConnectError, ConnectRefused
from holdfast.platforms.email.credentials import CredentialProvider, MailCredential
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings

# MERGED holdfast.platforms.email.line: A line to an IMAP server: the socket, the way it is kept secret, and the login.
RESPONSE_TIMEOUT = 30.0  # seconds for any one answer

# https://www.rfc-editor.org/rfc/rfc5530: why a login that was right may fail all the same.
_TEMPORARY_FAILURES = ("[unavailable]", "[limit]", "[inuse]", "[serverbug]", "temporar", "too many")

_PASSWORD_REMEDY = (
    "check address, username and password; many providers want a password made for this app, and "
    "IMAP switched on in their settings"
)
TOKEN_REMEDY = (
    "check that the app may read and send the mail of this very mailbox (address, username, "
    "scope), and that IMAP and SMTP with OAuth are switched on for it at the provider"
)

CONNECTION_ERRORS = (
    OSError,
    imaplib.IMAP4.error,
    ImapToolsError,
)  # what a call over a line may raise


class _ImapClient(imaplib.IMAP4):
    """One that is given its socket, so that it is ours to end while a thread waits for it."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self._given_socket = sock
        super().__init__(host)  # by that name its certificate is looked at

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        return self._given_socket


class ImapBox(BaseMailBox):
    """A mailbox of the library over a socket that is connected. Made in a thread: it talks."""

    def __init__(
        self, sock: socket.socket, settings: EmailSettings, tls_context: ssl.SSLContext | None
    ) -> None:
        self._sock = sock
        self._settings = settings
        self._tls_context = tls_context
        super().__init__()

    def _get_mailbox_client(self) -> imaplib.IMAP4:
        sock, context = self._sock, self._tls_context
        if self._settings.imap_security is ConnectionSecurity.TLS and context is not None:
            sock = context.wrap_socket(sock, server_hostname=self._settings.imap_host)
        client = _ImapClient(sock, self._settings.imap_host)
        if self._settings.imap_security is ConnectionSecurity.STARTTLS:
            try:
                client.starttls(context)
            except BaseException:
                abort_connection(client)
                raise
        return client


async def open_socket(host: str, port: int) -> socket.socket:
    """A socket to the server. Connected by the loop, not by a thread: an attempt that nobody
    wants any more ends at once."""
    loop = asyncio.get_running_loop()
    error = AccountDisconnected(f"{host} has no address")
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise AccountDisconnected(f"{host} cannot be found: {unknown}") from unknown
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, address), RESPONSE_TIMEOUT / 2)
        except OSError as refused:  # a timeout is one, too
            sock.close()
            error = AccountDisconnected(
                f"{host}:{port} cannot be reached: {str(refused) or 'no answer'}"
            )
        except BaseException:
            sock.close()
            raise
        else:
            sock.settimeout(RESPONSE_TIMEOUT)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return sock
    raise error


def abort_connection(client: imaplib.IMAP4) -> None:
    """Without a goodbye: whoever leaves does not wait for a server."""
    with suppress(OSError):
        client.shutdown()


def log_in(box: BaseMailBox, settings: EmailSettings, credential: MailCredential) -> None:
    name = settings.username or settings.address
    try:
        if credential.is_token:
            _authenticate_with_token(box.client, name, credential)
        elif name.isascii() and credential.secret.reveal().isascii():
            box.login(name, credential.secret.reveal(), initial_folder=None)
        else:
            box.login_utf8(name, credential.secret.reveal(), initial_folder=None)
    except (MailboxLoginError, imaplib.IMAP4.error) as error:
        if isinstance(error, imaplib.IMAP4.abort):
            raise
        raise _login_error(name, error, settings, credential) from error
    _, data = box.client.capability()  # a server says more to whom it knows
    box.client.capabilities = tuple(data[0].decode("ascii", "replace").upper().split())


def _authenticate_with_token(client: imaplib.IMAP4, name: str, credential: MailCredential) -> None:
    """https://developers.google.com/workspace/gmail/imap/xoauth2-protocol: a server that does not
    take it says why before it says no, and waits for an empty answer to that."""
    said: list[bytes] = []

    def answer(challenge: bytes) -> bytes:
        said.append(challenge)
        token = f"user={name}\1auth=Bearer {credential.secret.reveal()}\1\1"
        return token.encode() if len(said) == 1 else b""

    try:
        client.authenticate("XOAUTH2", answer)
    except imaplib.IMAP4.error as error:
        why = b" ".join(said[1:]).decode("utf-8", "replace")
        if isinstance(error, imaplib.IMAP4.abort) or not why:
            raise
        raise imaplib.IMAP4.error(f"{error} {why}") from error


def _login_error(
    name: str, error: Exception, settings: EmailSettings, credential: MailCredential
) -> ConnectError:
    told = f"{settings.imap_host} does not let {name} in: {error}"
    if any(word in told.lower() for word in _TEMPORARY_FAILURES):
        return AccountDisconnected(told)
    return ConnectRefused(told, remedy=TOKEN_REMEDY if credential.is_token else _PASSWORD_REMEDY)


def make_tls_context(settings: EmailSettings) -> ssl.SSLContext | None:
    """In a thread: it reads the certificates of this machine. None: nothing is to be secret."""
    if {settings.imap_security, settings.smtp_security} == {ConnectionSecurity.PLAIN}:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except OSError as error:
        raise ConnectRefused(
            f"{settings.ca_file} is no file of certificates: {error}",
            remedy="set platforms.email.ca_file to one in PEM form, or leave it out",
        ) from error


# MERGED holdfast.platforms.email.idling: Idling: a server says by itself when there is more (RFC 2177), and nothing of that is missed.
def search_uids(box: BaseMailBox, criteria: str) -> list[str]:
    """What is told from here on is news: a server says that there is more in its answer to any
    command, and says it once."""
    box.client.untagged_responses.pop("EXISTS", None)
    return box.uids(criteria, charset=None)


def start_idle(box: BaseMailBox) -> tuple[bytes, bool]:
    """Its tag, and whether there is something new since the last look: that may have been told
    with an answer meanwhile, or come in one piece with the server's word that it idles, and then
    nothing more would arrive."""
    client = box.client
    tag: bytes = client._command("IDLE")
    while client._get_response() is not None:
        if client.tagged_commands.get(tag) is not None:
            raise client.abort(f"it does not idle: {client.tagged_commands.pop(tag)!r}")
    if "EXISTS" in client.untagged_responses:
        return tag, True
    client.sock.settimeout(0)
    try:
        return tag, bool(client.readline())
    except OSError:  # there is nothing to be read
        return tag, False
    finally:
        client.sock.settimeout(RESPONSE_TIMEOUT)


def end_idle(box: BaseMailBox, tag: bytes) -> None:
    box.client.send(b"DONE\r\n")
    box.consume_until_tagged_response(tag)


# MERGED holdfast.platforms.email.mailbox: A mailbox: one connection to an IMAP server, asked from the event loop.
_POLL_INTERVAL = 60.0  # seconds between two looks at a server that says nothing by itself
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SENT_FOLDER_NAMES = ("Sent", "INBOX.Sent", "Sent Items", "Sent Messages")
_MAX_HEADER_BYTES = 128 * 1024  # bytes that are asked for: anybody may send megabytes of them
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")

T = TypeVar("T")


class MailHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a mail before it is fetched."""

    headers: Message
    is_complete: bool  # whether those are all of its headers
    size: int  # bytes of the whole
    arrived_at: float | None  # by the clock of the server


class MailUnavailable(AccountDisconnected):
    """The server says no to one mail, or hangs up over it: it may be broken there, and would end
    every line in which it is asked for."""


class ImapMailbox:
    """Owns one line. Its calls are for one task; `stir` may be called by another."""

    def __init__(self, box: BaseMailBox, on_response: Callable[[], None]) -> None:
        self._box = box
        self._on_response = on_response  # told of each answer
        self._woken = asyncio.Event()
        self._supports_idle = "IDLE" in box.client.capabilities

    @property
    def capabilities(self) -> tuple[str, ...]:
        return tuple(self._box.client.capabilities)

    async def select(self, folder: str) -> tuple[int, int]:
        """Its UIDVALIDITY, and the UID that the next mail will have. Nothing in it is changed by
        us: what is read and what is not is the business of people."""

        def ask(box: BaseMailBox) -> tuple[int, int]:
            box.folder.set(folder, readonly=True)
            status = box.folder.status(folder, ["UIDVALIDITY", "UIDNEXT"])
            return status["UIDVALIDITY"], status["UIDNEXT"]

        try:
            return await self._run(ask)
        except MailboxFolderSelectError as error:
            raise ConnectRefused(
                f"there is no folder {folder!r}: {error}",
                remedy="set platforms.email.folder to one that is there",
            ) from error

    async def uids_since(self, uid: int) -> list[int]:
        """Those behind that one, oldest first. A range that ends in a star has the last mail in
        it, whatever its number."""
        found = await self._run(lambda box: search_uids(box, f"UID {uid + 1}:*"))
        return sorted(number for each in found if (number := int(each)) > uid)

    async def uids_arrived_since(self, day: date) -> list[int]:
        said = f"{day.day:02}-{_MONTHS[day.month - 1]}-{day.year}"
        found = await self._run(lambda box: search_uids(box, f"SINCE {said}"))
        return sorted(map(int, found))

    async def fetch_head(self, uid: int) -> MailHead | None:
        """None: somebody has taken it away meanwhile."""
        asked = f"BODY.PEEK[HEADER]<0.{_MAX_HEADER_BYTES}>"
        found = await self._fetch(uid, f"(INTERNALDATE RFC822.SIZE {asked})")
        return None if found is None else await asyncio.to_thread(_parse_head, *found)

    async def fetch_source(self, uid: int, *, max_bytes: int) -> bytes | None:
        """Its first so many bytes. Not marked as read by that."""
        found = await self._fetch(uid, f"(BODY.PEEK[]<0.{max_bytes}>)")
        return None if found is None else found[1]

    async def wait_for_news(self, seconds: float) -> None:
        """Returns when there may be something new, or after that time, or when it was stirred; in
        each case it has had a round trip."""
        if not self._supports_idle:
            await self._wait_for_activity(min(seconds, _POLL_INTERVAL), None)
            await self._run(lambda box: box.client.noop())
            return
        tag, news = await self._run(start_idle)
        if not news:
            await self._wait_for_activity(seconds, self._box.client.sock.fileno())
        await self._run(lambda box: end_idle(box, tag))

    def wake(self) -> None:
        self._woken.set()

    async def sent_folder(self) -> str | None:
        """https://www.rfc-editor.org/rfc/rfc6154: the folder that the server calls so; an older one
        has only a name for it."""
        folders = await self._run(lambda box: box.folder.list())
        marked = [each.name for each in folders if r"\Sent" in each.flags]
        named = [each.name for each in folders if each.name in _SENT_FOLDER_NAMES]
        return next(iter((*marked, *named)), None)

    async def has_header(self, header: str, value: str) -> bool:
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        criteria = f'HEADER {header} "{quoted}"'
        return bool(await self._run(lambda box: box.uids(criteria, charset=None)))

    async def append(self, folder: str, source: bytes) -> None:
        await self._run(lambda box: box.append(source, folder, flag_set=[r"\Seen"]))

    async def _fetch(self, uid: int, items: str) -> tuple[bytes, bytes] | None:
        """What the server says around the bytes, and those."""

        def ask(box: BaseMailBox) -> tuple[bytes, bytes] | None:
            status, data = box.client.uid("FETCH", str(uid), items)
            if status != "OK":
                raise MailUnavailable(f"the IMAP server does not give mail {uid}: {data!r}")
            literal = next((each for each in data if isinstance(each, tuple)), None)
            if literal is None:
                return None
            rest = b" ".join(each for each in data if isinstance(each, bytes))
            return literal[0] + b" " + rest, literal[1]

        try:
            return await self._run(ask)
        except AccountDisconnected as error:
            if "BYE" in self._box.client.untagged_responses:
                raise MailUnavailable(str(error)) from error
            raise

    async def _wait_for_activity(self, seconds: float, descriptor: int | None) -> None:
        loop = asyncio.get_running_loop()
        if descriptor is not None:
            loop.add_reader(descriptor, self.wake)
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass
        finally:
            if descriptor is not None:
                loop.remove_reader(descriptor)
            self._woken.clear()

    async def _run(self, work: Callable[[BaseMailBox], T]) -> T:
        try:
            answer = await asyncio.to_thread(work, self._box)
        except MailboxFolderSelectError:
            raise
        except CONNECTION_ERRORS as error:
            raise AccountDisconnected(f"the IMAP server: {_describe_error(error)}") from error
        self._on_response()
        return answer


@asynccontextmanager
async def open_mailbox(
    settings: EmailSettings,
    credentials: CredentialProvider,
    tls_context: ssl.SSLContext | None,
    on_response: Callable[[], None] = lambda: None,
) -> AsyncIterator[ImapMailbox]:
    """Logged in, and nothing selected. Raises a `ConnectError`."""
    key = await credentials.current()
    sock = await open_socket(settings.imap_host, settings.effective_imap_port())

    def enter() -> BaseMailBox:
        box = ImapBox(sock, settings, tls_context)
        try:
            log_in(box, settings, key)
        except BaseException:
            abort_connection(box.client)
            raise
        return box

    # A thread that waits for the server is woken by the end of the line. A socket with TLS on it
    # takes no such word from outside that thread, so it is said to a second one of the same line.
    with sock, sock.dup() as line:
        try:
            box = await asyncio.to_thread(enter)
        except CONNECTION_ERRORS as error:
            raise AccountDisconnected(f"{settings.imap_host}: {_describe_error(error)}") from error
        except ConnectRefused as error:
            if credentials.report_refused(key):
                raise
            raise AccountDisconnected(str(error)) from error
        except asyncio.CancelledError:
            _shut_down(line)
            raise
        try:
            yield ImapMailbox(box, on_response)
        finally:
            _shut_down(line)
            abort_connection(box.client)


def _parse_head(metadata: bytes, headers: bytes) -> MailHead:
    """In a thread: so many headers are read for a while."""
    size, arrived = _SIZE.search(metadata), imaplib.Internaldate2tuple(metadata)
    return MailHead(
        headers=BytesHeaderParser().parsebytes(headers),
        is_complete=len(headers) < _MAX_HEADER_BYTES,
        size=int(size[1]) if size else 0,
        arrived_at=mktime(arrived) if arrived else None,
    )


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # it may have ended by itself
        sock.shutdown(socket.SHUT_RDWR)


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__
