"""The IMAP connection: socket, TLS, login, IDLE (RFC 2177), and a mailbox for the event loop.

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
from holdfast.core.text.translation import N_
from holdfast.platforms.email.credentials import CredentialProvider, MailCredential
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings

RESPONSE_TIMEOUT = 30.0  # seconds for each response

# https://www.rfc-editor.org/rfc/rfc5530: a login with valid credentials may fail with these.
_TEMPORARY_FAILURES = ("[unavailable]", "[limit]", "[inuse]", "[serverbug]", "temporar", "too many")

_PASSWORD_REMEDY = N_(
    "Check address, username and password; many providers require an app password, and IMAP "
    "enabled in their settings."
)
TOKEN_REMEDY = N_(
    "Check that the app may read and send the mail of this mailbox (address, username, scope), "
    "and that IMAP and SMTP with OAuth are enabled for it at the provider."
)

# What a call of the library may raise.
CONNECTION_ERRORS = (OSError, imaplib.IMAP4.error, ImapToolsError)
_POLL_INTERVAL = 60.0  # seconds, for a server without IDLE
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_SENT_FOLDER_NAMES = ("Sent", "INBOX.Sent", "Sent Items", "Sent Messages")
_MAX_HEADER_BYTES = 128 * 1024  # that are fetched: a sender may write megabytes of them
_SIZE = re.compile(rb"RFC822\.SIZE (\d+)")

T = TypeVar("T")


class _ImapClient(imaplib.IMAP4):
    """Uses a given socket, so that we can shut it down while a thread waits for it."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self._given_socket = sock
        super().__init__(host)  # the name that the certificate must have

    def _create_socket(self, timeout: float | None = None) -> socket.socket:
        return self._given_socket


class ImapBox(BaseMailBox):
    """The mailbox of the library on a connected socket. Create it in a thread: it does I/O."""

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
    """A socket to the server. Connected by the event loop, not by a thread, so that cancelling
    takes effect at once."""
    loop = asyncio.get_running_loop()
    error = AccountDisconnected("{host} has no address", host=host)
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as unknown:
        raise AccountDisconnected(
            "{host} cannot be found: {error}", host=host, error=unknown
        ) from unknown
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await asyncio.wait_for(loop.sock_connect(sock, address), RESPONSE_TIMEOUT / 2)
        except OSError as refused:  # a timeout is one, too
            sock.close()
            error = AccountDisconnected(
                "{host}:{port} cannot be reached: {reason}",
                host=host,
                port=port,
                reason=str(refused) or "no answer",
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
    """Without LOGOUT: closing does not wait for the server."""
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
    _, data = box.client.capability()  # a server may offer more after login
    box.client.capabilities = tuple(data[0].decode("ascii", "replace").upper().split())


def _authenticate_with_token(client: imaplib.IMAP4, name: str, credential: MailCredential) -> None:
    """https://developers.google.com/workspace/gmail/imap/xoauth2-protocol: a server that refuses
    the token first sends the reason, and waits for an empty answer to it."""
    challenges: list[bytes] = []

    def answer(challenge: bytes) -> bytes:
        challenges.append(challenge)
        token = f"user={name}\1auth=Bearer {credential.secret.reveal()}\1\1"
        return token.encode() if len(challenges) == 1 else b""

    try:
        client.authenticate("XOAUTH2", answer)
    except imaplib.IMAP4.error as error:
        why = b" ".join(challenges[1:]).decode("utf-8", "replace")
        if isinstance(error, imaplib.IMAP4.abort) or not why:
            raise
        raise imaplib.IMAP4.error(f"{error} {why}") from error


def _login_error(
    name: str, error: Exception, settings: EmailSettings, credential: MailCredential
) -> ConnectError:
    cause = AccountDisconnected(
        "{host} rejects the login of {name}: {error}",
        host=settings.imap_host,
        name=name,
        error=error,
    )
    if any(each in str(cause).lower() for each in _TEMPORARY_FAILURES):
        return cause
    remedy = TOKEN_REMEDY if credential.is_token else _PASSWORD_REMEDY
    return ConnectRefused("{error}", error=cause, remedy=remedy)


def make_tls_context(settings: EmailSettings) -> ssl.SSLContext | None:
    """Runs in a thread: it reads the certificates of this machine. None if neither connection uses
    TLS."""
    if {settings.imap_security, settings.smtp_security} == {ConnectionSecurity.PLAIN}:
        return None
    try:
        return ssl.create_default_context(cafile=settings.ca_file or None)
    except OSError as error:
        raise ConnectRefused(
            "{ca_file} is not a file of certificates: {error}",
            ca_file=settings.ca_file,
            error=error,
            remedy="Set platforms.email.ca_file to a PEM file, or remove it.",
        ) from error


def search_uids(box: BaseMailBox, criteria: str) -> list[str]:
    """Clears the pending EXISTS first: a server reports new mail in the answer to any command, but
    only once, so whatever arrives from here on is new."""
    box.client.untagged_responses.pop("EXISTS", None)
    return box.uids(criteria, charset=None)


def start_idle(box: BaseMailBox) -> tuple[bytes, bool]:
    """The tag of the command, and whether there is new mail since the last search: that may have
    been reported in the answer to another command, or together with the continuation of IDLE, and
    then the socket would stay silent."""
    client = box.client
    tag: bytes = client._command("IDLE")
    while client._get_response() is not None:
        if client.tagged_commands.get(tag) is not None:
            raise client.abort(f"IDLE was refused: {client.tagged_commands.pop(tag)!r}")
    if "EXISTS" in client.untagged_responses:
        return tag, True
    client.sock.settimeout(0)
    try:
        return tag, bool(client.readline())
    except OSError:  # nothing to read
        return tag, False
    finally:
        client.sock.settimeout(RESPONSE_TIMEOUT)


def end_idle(box: BaseMailBox, tag: bytes) -> None:
    box.client.send(b"DONE\r\n")
    box.consume_until_tagged_response(tag)


class MailHead(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a mail before its body is fetched."""

    headers: Message
    is_complete: bool  # whether these are all headers
    size: int  # bytes of the whole mail
    arrived_at: float | None  # by the clock of the server


class MailUnavailable(AccountDisconnected):
    """The server refuses one mail, or closes the connection when it is fetched: the mail may be
    damaged on the server, and would end every connection."""


class ImapMailbox:
    """Owns one connection. Its methods are for one task; `wake` may be called by another."""

    def __init__(self, box: BaseMailBox, on_response: Callable[[], None]) -> None:
        self._box = box
        self._on_response = on_response  # called after each response
        self._woken = asyncio.Event()
        self._supports_idle = "IDLE" in box.client.capabilities

    @property
    def capabilities(self) -> tuple[str, ...]:
        return tuple(self._box.client.capabilities)

    async def select(self, folder: str) -> tuple[int, int]:
        """The UIDVALIDITY, and the UID that the next mail will have. Read-only: the \\Seen flags
        belong to the users of the mailbox."""

        def ask(box: BaseMailBox) -> tuple[int, int]:
            box.folder.set(folder, readonly=True)
            status = box.folder.status(folder, ["UIDVALIDITY", "UIDNEXT"])
            return status["UIDVALIDITY"], status["UIDNEXT"]

        try:
            return await self._run(ask)
        except MailboxFolderSelectError as error:
            raise ConnectRefused(
                "there is no folder {folder!r}: {error}",
                folder=folder,
                error=error,
                remedy="Set platforms.email.folder to an existing folder.",
            ) from error

    async def uids_since(self, uid: int) -> list[int]:
        """The UIDs after this one, oldest first. A range that ends in a star always includes the
        last mail, whatever its UID."""
        found = await self._run(lambda box: search_uids(box, f"UID {uid + 1}:*"))
        return sorted(number for each in found if (number := int(each)) > uid)

    async def uids_arrived_since(self, day: date) -> list[int]:
        since = f"{day.day:02}-{_MONTHS[day.month - 1]}-{day.year}"
        found = await self._run(lambda box: search_uids(box, f"SINCE {since}"))
        return sorted(map(int, found))

    async def fetch_head(self, uid: int) -> MailHead | None:
        """None if the mail was deleted meanwhile."""
        header_item = f"BODY.PEEK[HEADER]<0.{_MAX_HEADER_BYTES}>"
        found = await self._fetch(uid, f"(INTERNALDATE RFC822.SIZE {header_item})")
        return None if found is None else await asyncio.to_thread(_parse_head, *found)

    async def fetch_source(self, uid: int, *, max_bytes: int) -> bytes | None:
        """The first `max_bytes` of the mail. Does not mark it as read."""
        found = await self._fetch(uid, f"(BODY.PEEK[]<0.{max_bytes}>)")
        return None if found is None else found[1]

    async def wait_for_new_mail(self, seconds: float) -> None:
        """Returns when there may be new mail, after this time, or after `wake`; in each case after
        a round trip to the server."""
        if not self._supports_idle:
            await self._wait_for_activity(min(seconds, _POLL_INTERVAL), None)
            await self._run(lambda box: box.client.noop())
            return
        tag, has_changes = await self._run(start_idle)
        if not has_changes:
            await self._wait_for_activity(seconds, self._box.client.sock.fileno())
        await self._run(lambda box: end_idle(box, tag))

    def wake(self) -> None:
        self._woken.set()

    async def sent_folder(self) -> str | None:
        """https://www.rfc-editor.org/rfc/rfc6154: the folder that the server marks as \\Sent;
        on an older server, one with a usual name."""
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
        """The metadata in the response, and the bytes."""

        def ask(box: BaseMailBox) -> tuple[bytes, bytes] | None:
            status, data = box.client.uid("FETCH", str(uid), items)
            if status != "OK":
                raise MailUnavailable(
                    "the IMAP server refuses to deliver mail {uid}: {data!r}", uid=uid, data=data
                )
            literal = next((each for each in data if isinstance(each, tuple)), None)
            if literal is None:
                return None
            rest = b" ".join(each for each in data if isinstance(each, bytes))
            return literal[0] + b" " + rest, literal[1]

        try:
            return await self._run(ask)
        except AccountDisconnected as error:
            if "BYE" in self._box.client.untagged_responses:
                raise MailUnavailable("{error}", error=error) from error
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
            result = await asyncio.to_thread(work, self._box)
        except MailboxFolderSelectError:
            raise
        except CONNECTION_ERRORS as error:
            raise AccountDisconnected(
                "lost the connection to the IMAP server: {reason}", reason=_describe_error(error)
            ) from error
        self._on_response()
        return result


@asynccontextmanager
async def open_mailbox(
    settings: EmailSettings,
    credentials: CredentialProvider,
    tls_context: ssl.SSLContext | None,
    on_response: Callable[[], None] = lambda: None,
) -> AsyncIterator[ImapMailbox]:
    """Logged in, without a selected folder. Raises a `ConnectError`."""
    credential = await credentials.current()
    sock = await open_socket(settings.imap_host, settings.effective_imap_port())

    def connect() -> BaseMailBox:
        box = ImapBox(sock, settings, tls_context)
        try:
            log_in(box, settings, credential)
        except BaseException:
            abort_connection(box.client)
            raise
        return box

    # A thread that waits for the server is woken by shutting the socket down. A TLS socket cannot
    # be shut down from another thread, so a duplicate of the plain socket is.
    with sock, sock.dup() as duplicate:
        try:
            box = await asyncio.to_thread(connect)
        except CONNECTION_ERRORS as error:
            raise AccountDisconnected(
                "{host}: {reason}", host=settings.imap_host, reason=_describe_error(error)
            ) from error
        except ConnectRefused as error:
            if credentials.report_refused(credential):
                raise
            raise AccountDisconnected("{error}", error=error) from error
        except asyncio.CancelledError:
            _shut_down(duplicate)
            raise
        try:
            yield ImapMailbox(box, on_response)
        finally:
            _shut_down(duplicate)
            abort_connection(box.client)


def _parse_head(metadata: bytes, headers: bytes) -> MailHead:
    """Runs in a thread: parsing many headers takes a while."""
    size, arrived = _SIZE.search(metadata), imaplib.Internaldate2tuple(metadata)
    return MailHead(
        headers=BytesHeaderParser().parsebytes(headers),
        is_complete=len(headers) < _MAX_HEADER_BYTES,
        size=int(size[1]) if size else 0,
        arrived_at=mktime(arrived) if arrived else None,
    )


def _shut_down(sock: socket.socket) -> None:
    with suppress(OSError):  # it may be closed already
        sock.shutdown(socket.SHUT_RDWR)


def _describe_error(error: Exception) -> str:
    return str(error) or type(error).__name__
