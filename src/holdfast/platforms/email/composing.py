"""Composing: a delivery as the mail that is sent for it."""

import mimetypes
from collections.abc import Iterator
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

from holdfast.core.messages.outbox import Outbound, OutboundFile
from holdfast.platforms.email.automatic import DELIVERY_HEADER
from holdfast.platforms.email.names import message_id_of
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.reading import domain_of
from holdfast.platforms.email.threads import EmailThread
from holdfast.platforms.text.email import render_email

_REPEAT_NOTICE = "*(This may have reached you before.)*\n\n"
_MAX_SUBJECT_LENGTH = 70  # characters of one that is made of the text
_REPLY_PREFIXES = ("re:", "aw:", "sv:", "vs:", "antw:", "odp:")
# A name that is broken off its header is found by no server that looks for it.
_POLICY = compat32.clone(linesep="\r\n", mangle_from_=False, max_line_length=500)


class ComposedMail(msgspec.Struct, frozen=True, kw_only=True):
    message_id: str  # its Message-ID
    source: bytes


def compose(
    outbound: Outbound, thread: EmailThread | None, *, settings: EmailSettings, at: float
) -> ComposedMail:
    """In a thread: a long text takes its time. The same words and the same name in every attempt;
    no sign of a text can become a header of its own."""
    text = f"{_REPEAT_NOTICE}{outbound.text}" if outbound.may_be_duplicate else outbound.text
    name = message_id_of(
        outbound.delivery_id, outbound.address.thread_id, domain=domain_of(settings.address)
    )
    mail = _body(_replace_surrogates(text), outbound.file)
    mail["From"] = _format_address(settings.name, settings.address)
    mail["To"] = outbound.address.chat_id
    subject = _subject(text, outbound.file, thread)
    charset = "us-ascii" if subject.isascii() else "utf-8"
    mail.add_header("Subject", Header(subject, charset, header_name="Subject").encode())
    mail["Date"] = format_datetime(datetime.fromtimestamp(at, UTC))
    mail["Message-ID"] = name
    for header, value in _thread_headers(outbound, thread):
        mail[header] = value
    # https://www.rfc-editor.org/rfc/rfc3834#section-5, and what Exchange goes by: no program is to
    # answer this by itself.
    mail["Auto-Submitted"] = "auto-replied" if thread else "auto-generated"
    mail["X-Auto-Response-Suppress"] = "All"
    mail[DELIVERY_HEADER] = outbound.delivery_id
    return ComposedMail(message_id=name, source=mail.as_bytes(policy=_POLICY))


def _thread_headers(outbound: Outbound, thread: EmailThread | None) -> Iterator[tuple[str, str]]:
    """Programs show it under what it answers."""
    if thread is None:
        return
    answered = outbound.address.reply_to or thread.references[-1]
    yield "In-Reply-To", answered
    yield "References", " ".join(dict.fromkeys((*thread.references, answered)))


def _body(text: str, file: OutboundFile | None) -> Message:
    shown = render_email(text) if text.strip() else None
    plain = _text_part(shown.plain if shown else "", "plain")
    mail: Message = plain
    if shown is not None and shown.html:
        mail = MIMEMultipart("alternative", _subparts=[plain, _text_part(shown.html, "html")])
    if file is not None:
        mail = MIMEMultipart("mixed", _subparts=[mail, _file_part(file)])
    return mail


def _text_part(text: str, subtype: str) -> MIMEText:
    """Lines of any length and any letters, and still to be read without a program."""
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
    printable = "".join(sign if sign.isprintable() else " " for sign in _replace_surrogates(text))
    return " ".join(printable.split())


def _replace_surrogates(text: str) -> str:
    """Half an emoji has no bytes."""
    return text.encode("utf-8", "replace").decode()
