"""Composes mails, submits them over SMTP, and stores or looks up copies in the folder of sent mail.

Importing this module imports aiosmtplib.
"""

import asyncio
import logging
import mimetypes
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from email.charset import QP, Charset
from email.encoders import encode_base64
from email.header import Header
from email.message import Message
from email.mime.base import MIMEBase
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from email.policy import compat32
from email.utils import format_datetime, formataddr

import msgspec
from aiosmtplib import SMTP, SMTPAuthenticationError, SMTPException, SMTPResponseException

from holdfast.core.errors import (
    ConnectError,
    ConnectRefused,
    FileTooLarge,
    NotConnected,
    OutcomeUnknown,
    SendError,
    SendRejected,
    Throttled,
)
from holdfast.core.messages.outbox import Outbound, OutboundFile
from holdfast.core.text.translatable import Translatable
from holdfast.platforms.email.authentication import DELIVERY_HEADER
from holdfast.platforms.email.client import TOKEN_REMEDY, ImapMailbox
from holdfast.platforms.email.credentials import CredentialProvider, MailCredential
from holdfast.platforms.email.events import EmailThread, domain_of, message_id_of
from holdfast.platforms.email.plugin import ConnectionSecurity, EmailSettings, SentCopies
from holdfast.platforms.text.html import render_email

log = logging.getLogger(__name__)

_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
_MAX_SUBJECT_LENGTH = 70  # characters, if it is made from the text
_REPLY_PREFIXES = ("re:", "aw:", "sv:", "vs:", "antw:", "odp:")
# Long lines: servers do not find a Message-ID that is folded onto a new line.
_POLICY = compat32.clone(linesep="\r\n", mangle_from_=False, max_line_length=500)
_RESPONSE_TIMEOUT = 30.0  # seconds for each response,
_DATA_TIMEOUT = 120.0  # except the last: a server may scan the mail before it accepts it
_DEFAULT_RETRY_AFTER = 60.0  # seconds: SMTP does not say how long to wait
_FIRST_PERMANENT_CODE = 500  # codes from here on are permanent
_TOO_LARGE_CODES = frozenset({"5.3.4", "5.2.3"})
_LIBRARY_ERRORS = (SMTPException, OSError)
_SETTLE_SECONDS = 3.0  # after which an accepted mail is in the folder of the server
# https://developers.google.com/workspace/gmail/imap/imap-extensions
_GMAIL_CAPABILITY = "X-GM-EXT-1"

OpenMailbox = Callable[[], AbstractAsyncContextManager[ImapMailbox]]


class ComposedMail(msgspec.Struct, frozen=True, kw_only=True):
    message_id: str
    source: bytes


def compose(
    outbound: Outbound, thread: EmailThread | None, *, settings: EmailSettings, at: float
) -> ComposedMail:
    """Runs in a thread: a long text takes a while. The Message-ID is the same in every attempt. No
    text can inject a header."""
    text = f"{_REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
    message_id = message_id_of(
        outbound.delivery_id, outbound.address.thread_id, domain=domain_of(settings.address)
    )
    mail = _body(_replace_surrogates(text), outbound.file)
    mail["From"] = _format_address(settings.name, settings.address)
    mail["To"] = outbound.address.chat_id
    subject = _subject(text, outbound.file, thread)
    charset = "us-ascii" if subject.isascii() else "utf-8"
    mail.add_header("Subject", Header(subject, charset, header_name="Subject").encode())
    mail["Date"] = format_datetime(datetime.fromtimestamp(at, UTC))
    mail["Message-ID"] = message_id
    for header, value in _thread_headers(outbound, thread):
        mail[header] = value
    # https://www.rfc-editor.org/rfc/rfc3834#section-5, and the header for Exchange: no program
    # should answer this automatically.
    mail["Auto-Submitted"] = "auto-replied" if thread else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail[DELIVERY_HEADER] = outbound.delivery_id
    return ComposedMail(message_id=message_id, source=mail.as_bytes(policy=_POLICY))


def _thread_headers(outbound: Outbound, thread: EmailThread | None) -> Iterator[tuple[str, str]]:
    """Mail programs group threads by these."""
    if thread is None:
        return
    answered = outbound.address.reply_to or thread.references[-1]
    yield "In-Reply-To", answered
    yield "References", " ".join(dict.fromkeys((*thread.references, answered)))


def _body(text: str, file: OutboundFile | None) -> Message:
    rendered = render_email(text) if text.strip() else None
    plain = _text_part(rendered.plain if rendered else "", "plain")
    mail: Message = plain
    if rendered is not None and rendered.html:
        mail = MIMEMultipart("alternative", _subparts=[plain, _text_part(rendered.html, "html")])
    if file is not None:
        mail = MIMEMultipart("mixed", _subparts=[mail, _file_part(file)])
    return mail


def _text_part(text: str, subtype: str) -> MIMEText:
    """Quoted-printable: any line length and any characters, and still readable as source."""
    charset = Charset("utf-8")
    charset.body_encoding = QP
    return MIMEText(text, subtype, _charset=charset)  # type: ignore[arg-type]


def _file_part(file: OutboundFile) -> MIMEBase:
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    part = MIMEBase(*kind.split("/", maxsplit=1))
    part.set_payload(file.data)
    encode_base64(part)
    name = _single_line(file.name)
    filename = name if name.isascii() else ("utf-8", "", name)
    part.add_header("Content-Disposition", "attachment", filename=filename)
    return part


def _subject(text: str, file: OutboundFile | None, thread: EmailThread | None) -> str:
    if thread is not None and thread.subject:
        subject = _single_line(thread.subject)
        return subject if subject.lower().startswith(_REPLY_PREFIXES) else f"Re: {subject}"
    first = next((line for line in text.splitlines() if line.strip(" #*_>`-")), "")
    made = (
        _single_line(first.strip(" #*_>`-"))
        or (_single_line(file.name) if file else "")
        or "A message"
    )
    return made if len(made) <= _MAX_SUBJECT_LENGTH else f"{made[:_MAX_SUBJECT_LENGTH].rstrip()}…"


def _format_address(name: str, address: str) -> str:
    return formataddr((_single_line(name), address))


def _single_line(text: str) -> str:
    printable = "".join(each if each.isprintable() else " " for each in _replace_surrogates(text))
    return " ".join(printable.split())


def _replace_surrogates(text: str) -> str:
    """A lone surrogate cannot be encoded."""
    return text.encode("utf-8", "replace").decode()


class SmtpLoginRefused(NotConnected):
    """The password is not accepted, or there is no token: nothing can be sent until a person fixes
    it. `remedy` says how, if that is known."""

    def __init__(self, message: str, *, remedy: str | Translatable = "", **values: object) -> None:
        super().__init__(message, **values)
        self.remedy = remedy


class SmtpClient:
    """Opens a connection for each mail, because mails are few. Has no state."""

    def __init__(
        self,
        settings: EmailSettings,
        credentials: CredentialProvider,
        tls_context: ssl.SSLContext | None,
    ) -> None:
        self._settings = settings
        self._credentials = credentials
        self._tls_context = tls_context

    async def check_login(self) -> None:
        """Raises `NotConnected` if the login fails."""
        async with self._open():
            pass

    async def submit(self, source: bytes, *, to: str) -> None:
        """Returns when the server has accepted the mail. Raises a `SendError`."""
        async with self._open() as smtp:
            self._check_size(smtp, source)
            try:
                await smtp.mail(self._settings.address)
                await smtp.rcpt(to)
            except SMTPResponseException as error:
                raise _to_send_error(error) from error
            except _LIBRARY_ERRORS as error:
                raise NotConnected(
                    "lost the connection to the SMTP server: {error}", error=error
                ) from error
            await self._send_data(smtp, source)

    async def _send_data(self, smtp: SMTP, source: bytes) -> None:
        try:
            await smtp.data(source, timeout=_DATA_TIMEOUT)
        except SMTPResponseException as error:
            raise _to_send_error(error) from error
        except _LIBRARY_ERRORS as error:
            raise OutcomeUnknown(
                "the SMTP server did not confirm the mail: {error}", error=error
            ) from error

    def _check_size(self, smtp: SMTP, source: bytes) -> None:
        """https://www.rfc-editor.org/rfc/rfc1870: a mail that is too large is not sent."""
        limit = smtp.esmtp_extensions.get("size", "").strip()
        if limit.isdigit() and 0 < int(limit) < len(source):
            raise FileTooLarge(
                "the mail has {n} bytes; {smtp_host} accepts {limit}",
                n=len(source),
                smtp_host=self._settings.smtp_host,
                limit=limit,
            )

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[SMTP]:
        credential = await self._credential()
        smtp = self._make_client(credential)
        try:
            await self._connect(smtp, credential)
            yield smtp
            with suppress(*_LIBRARY_ERRORS):  # the mail is accepted already
                await smtp.quit(timeout=_RESPONSE_TIMEOUT)
        finally:
            smtp.close()

    async def _credential(self) -> MailCredential | None:
        if not self._settings.smtp_login:
            return None
        try:
            return await self._credentials.current()
        except ConnectRefused as error:
            raise SmtpLoginRefused("{error}", error=error, remedy=error.remedy) from error
        except ConnectError as error:
            raise NotConnected("{error}", error=error) from error

    async def _connect(self, smtp: SMTP, credential: MailCredential | None) -> None:
        host = self._settings.smtp_host
        try:
            await smtp.connect()
        except SMTPAuthenticationError as error:
            answer = NotConnected("{host}: {error}", host=host, error=error.message)
            if (
                error.code < _FIRST_PERMANENT_CODE
                or credential is None
                or not self._credentials.report_refused(credential)
            ):
                raise answer from error
            raise SmtpLoginRefused(
                "{error}", error=answer, remedy=TOKEN_REMEDY if credential.is_token else ""
            ) from error
        except (*_LIBRARY_ERRORS, ValueError) as error:
            raise NotConnected("{host}: {error}", host=host, error=error) from error

    def _make_client(self, credential: MailCredential | None) -> SMTP:
        settings = self._settings

        async def token() -> str:
            return "" if credential is None else credential.secret.reveal()

        by_token = credential is not None and credential.is_token
        return SMTP(
            hostname=settings.smtp_host,
            port=settings.effective_smtp_port(),
            username=(settings.username or settings.address) if credential is not None else None,
            password=None if credential is None or by_token else credential.secret.reveal(),
            oauth_token_generator=token if by_token else None,
            local_hostname=domain_of(settings.address),
            timeout=_RESPONSE_TIMEOUT,
            use_tls=settings.smtp_security is ConnectionSecurity.TLS,
            start_tls=settings.smtp_security is ConnectionSecurity.STARTTLS,
            tls_context=self._tls_context
            if settings.smtp_security is not ConnectionSecurity.PLAIN
            else None,
        )


def _to_send_error(error: SMTPResponseException) -> SendError:
    """https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1: the mail was not accepted in either
    case."""
    message = f"the SMTP server answered {error.code} {error.message}"
    if _is_too_large(error):
        return FileTooLarge(message)
    if error.code >= _FIRST_PERMANENT_CODE:
        return SendRejected(message)
    return Throttled(message, retry_after=_DEFAULT_RETRY_AFTER)


def _is_too_large(error: SMTPResponseException) -> bool:
    """https://www.rfc-editor.org/rfc/rfc1870#section-6.1: 552 means that the mail is too large, and
    also that a mailbox is full; the enhanced code tells which (RFC 3463, sections 3.3 and 3.4)."""
    enhanced = error.message.partition(" ")[0]
    return enhanced in _TOO_LARGE_CODES or (error.code == 552 and not enhanced.startswith("5."))


class SentFolder:
    """The folder of sent mail, and whether the server or we store copies in it. Each access uses a
    connection of its own, because the connection of the receiver has another folder selected."""

    def __init__(
        self,
        open_mailbox: OpenMailbox,
        *,
        folder: str | None,
        copies: SentCopies,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._open_mailbox = open_mailbox
        self._folder = folder
        self._copies = copies if folder is not None else SentCopies.NONE
        self._sleep = sleep

    @classmethod
    async def detect(
        cls, mailbox: ImapMailbox, open_mailbox: OpenMailbox, *, copies: SentCopies
    ) -> "SentFolder":
        if copies is SentCopies.AUTO:
            copies = (
                SentCopies.SERVER if _GMAIL_CAPABILITY in mailbox.capabilities else SentCopies.OURS
            )
        folder = None if copies is SentCopies.NONE else await mailbox.sent_folder()
        if folder is None and copies is SentCopies.SERVER:
            log.warning(
                "The mail server has no folder of sent mail: a mail without a receipt "
                "cannot be looked up, and may be sent twice",
                extra={"action": "sent_folder_missing"},
            )
        return cls(open_mailbox, folder=folder, copies=copies)

    @property
    def proves_absence(self) -> bool:
        """Whether a mail that is not in the folder was not sent: only if the server itself stores
        the copies. Our own copy may be missing because the process was killed before storing it."""
        return self._copies is SentCopies.SERVER

    @property
    def stores_copies(self) -> bool:
        return self._copies is SentCopies.OURS

    async def contains(self, message_id: str, delivery_id: str) -> bool:
        """Raises `NotConnected` if that cannot be determined now. Also searches the delivery
        header: some servers replace the Message-ID."""
        if self.proves_absence:
            await self._sleep(_SETTLE_SECONDS)
        try:
            async with self._open_folder() as mailbox:
                return await mailbox.has_header(
                    "Message-ID", message_id
                ) or await mailbox.has_header(DELIVERY_HEADER, delivery_id)
        except ConnectError as error:
            raise NotConnected("{error}", error=error) from error

    async def store_copy(self, mail: ComposedMail) -> None:
        """For the users of the mailbox. The mail is sent already, so a failure is only logged."""
        if not self.stores_copies or self._folder is None:
            return
        try:
            async with self._open_mailbox() as mailbox:
                await mailbox.append(self._folder, mail.source)
        except ConnectError as error:
            log.warning(
                "Could not store the copy of a sent mail, which the folder of sent mail now lacks: "
                "%s",
                error,
                extra={"action": "sent_copy_failed"},
            )

    @asynccontextmanager
    async def _open_folder(self) -> AsyncIterator[ImapMailbox]:
        assert self._folder is not None, "called only with a folder"
        async with self._open_mailbox() as mailbox:
            await mailbox.select(self._folder)
            yield mailbox
