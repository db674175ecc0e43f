"""A line to an IMAP server: the socket, the way it is kept secret, and the login."""

import asyncio
import imaplib
import socket
import ssl
from contextlib import suppress

from imap_tools import BaseMailBox, MailboxLoginError
from imap_tools.errors import ImapToolsError

from holdfast.core.errors import AccountDisconnected, ConnectError, ConnectRefused
from holdfast.platforms.email.keys import MailCredential
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings

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
