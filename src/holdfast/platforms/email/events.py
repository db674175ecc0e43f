"""A mail as an inbound message: sender, reply text without quotes and signature, and thread."""

import asyncio
import logging
import re
from collections.abc import Sequence
from email.message import Message
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.source import Author, ChatType, Quote, Source
from holdfast.core.turns.external import source_label
from holdfast.platforms.email.authentication import classify_author, is_authentic, is_bounce
from holdfast.platforms.email.mime import (
    NamedAddress,
    decoded_header,
    first_header,
    header_addresses,
    message_ids,
)
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.system import state_file
from holdfast.system.languages import accepted_languages

log = logging.getLogger(__name__)

PLATFORM = "email"
_MAX_TEXT_LENGTH = 100_000  # characters of one mail for the agent
_MAX_SUBJECT_LENGTH = 500  # characters
_MAX_REFERENCES = 10  # of an answer: the first mail and the last ones
_LOSS_CONSEQUENCE = "an answer in this thread starts a new thread."
_RETENTION_SECONDS = 400 * 86400.0  # since the last mail of a thread
_NO_THREAD = "0"
_THREAD = re.compile(r"[0-9a-f]{24}")
_OWN_MESSAGE_ID = re.compile(r"<hf\.[A-Za-z0-9_.-]+\.([0-9a-f]{24}|0)@(.+)>")
_SIGNATURE = re.compile(r"-- ?")  # RFC 3676 4.3; some programs remove the space
_MAX_SIGNATURE_LINES = 12  # with more lines below, the dashes are part of the text
_SENT_FROM = re.compile(
    r"(Sent from (my|Mail|Outlook|Yahoo|Proton)|Get Outlook for|Gesendet von (meinem|Mail|Outlook)|"
    r"Von meinem \w+ gesendet|Envoyé (de mon|depuis))"
)
_ORIGINAL_MESSAGE_LINE = re.compile(
    r"-{2,} ?(Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original|"
    r"Messaggio originale|Oorspronkelijk bericht) ?-{2,}",
    re.IGNORECASE,
)
# Outlook puts several such lines above the mail that is answered.
_HEADING = re.compile(
    r"\*?(From|Sent|To|Cc|Date|Subject|Von|Gesendet|An|Betreff|Datum|De|Envoyé|À|Objet|Da|Inviato|"
    r"Oggetto|Para|Enviado|Asunto|Van|Verzonden|Aan|Onderwerp) ?:\*? \S",
)
_FIRST_HEADING = re.compile(r"\*?(From|Von|De|Da|Van) ?:\*? \S")
_MIN_HEADING_LINES = 3
_ATTRIBUTION_START = re.compile(r"(On|Am|Le|El|Il|Op|Em|Den|W dniu) ")
# Ordinary sentences may end in a colon, too; an attribution has an address or a time.
_ATTRIBUTION_DETAIL = re.compile(r"@|\d:\d\d|\d{4}|(wrote|schrieb|écrit) ?:$")
_MAX_ATTRIBUTION_LINES = 3  # of "On …, Ann <ann@example.org> wrote:"


def message_id_of(delivery_id: DeliveryId, thread_id: str | None, *, domain: str) -> str:
    """The Message-ID of a delivery, the same in every attempt. It contains the thread id: some
    programs refer only to the mail that they answer, and not to the first one of the thread."""
    delivery = re.sub(r"[^A-Za-z0-9_.-]", "-", delivery_id)
    thread = thread_id if thread_id and _THREAD.fullmatch(thread_id) else _NO_THREAD
    return f"<hf.{delivery}.{thread}@{domain}>"


def is_own_message_id(message_id: str, *, domain: str) -> bool:
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    return found is not None and found[2] == domain


def thread_id_in(message_id: str, *, domain: str) -> str | None:
    """The thread of a mail that we sent; None if it is not ours, or started a thread."""
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    if found is None or found[2] != domain or found[1] == _NO_THREAD:
        return None
    return found[1]


def thread_id_for(message_id: str, references: Sequence[str], *, domain: str) -> str:
    """The thread of a mail with these references, oldest first."""
    known = (thread_id_in(each, domain=domain) for each in references)
    return next(filter(None, known), None) or digest(next(iter(references), message_id))


def digest(*parts: str) -> str:
    data = "\n".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(data, digest_size=12).hexdigest()


_MAX_LANGUAGE_LENGTH = (
    35  # characters of a tag; https://www.rfc-editor.org/rfc/rfc5646#section-4.4.1
)


class EmailThread(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer needs so that mail programs show it in its thread. `references` ends with the
    mail to answer."""

    subject: str
    references: tuple[str, ...]


class ThreadFiles:
    """Owns a folder with one small file per thread. A delivery has only its recipient and its
    thread id; the subject and the references are specific to this platform, so they are stored
    here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, chat: str, thread_id: str, details: EmailThread) -> bool:
        """Returns whether the thread is new. Durable when this returns: from then on, there may be
        an answer to send. Raises `TransientStoreError`."""
        is_new = await self.get(chat, thread_id) is None
        first, *rest = details.references
        references = (first, *rest[1 - _MAX_REFERENCES :])
        stored = msgspec.structs.replace(details, references=references)
        await state_file.save(self._path(chat, thread_id), stored)
        return is_new

    async def get(self, chat: str, thread_id: str) -> EmailThread | None:
        """None if the thread is unknown: then an answer starts a new one."""
        path = self._path(chat, thread_id)
        return await asyncio.to_thread(
            state_file.load, path, EmailThread, consequence=_LOSS_CONSEQUENCE
        )

    async def delete(self, chat: str, thread_id: str) -> None:
        await asyncio.to_thread(self._path(chat, thread_id).unlink, missing_ok=True)

    async def remove_stale(self, now: float) -> None:
        """Deletes the threads without a mail for more than a year."""
        try:
            await asyncio.to_thread(self._remove_stale_files, now - _RETENTION_SECONDS)
        except OSError as error:
            log.warning(
                "Could not delete old mail threads: %s",
                error,
                extra={"action": "threads_not_cleaned"},
            )

    def _remove_stale_files(self, before: float) -> None:
        for path in self._folder.glob("*.json"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _path(self, chat: str, thread_id: str) -> Path:
        return self._folder / f"{digest(chat, thread_id)}.json"


class ReplyText(msgspec.Struct, frozen=True, kw_only=True):
    """The new text of a reply, and the text that it quotes."""

    text: str
    quoted: str = ""  # without the ">" marks


def split_reply(text: str, *, is_reply: bool) -> ReplyText:
    """Cuts off a quote above or below the whole text. Quotes between answers stay, because they
    show what is answered. Without `is_reply` nothing is cut off: in a forwarded mail, the quoted
    text is the content."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    if not is_reply:
        return ReplyText(text=_join_lines(_strip_signature(lines)))
    own, below = _split_heading(lines)
    if not below:
        own, below = _split_trailing_quote(lines)
    own, above = _split_leading_quote(own)
    quoted = _join_lines([*above, *below])
    reply = _join_lines(_strip_signature(own))
    if not reply and not quoted:
        return ReplyText(text=_join_lines(lines))
    return ReplyText(text=reply, quoted=quoted)


def _split_heading(lines: list[str]) -> tuple[list[str], list[str]]:
    """Splits where a program has inserted the whole answered mail without ">" marks."""
    for number, line in enumerate(lines):
        heading = lines[number : number + 6]
        outlook = _FIRST_HEADING.match(line) and (
            sum(bool(_HEADING.match(each)) for each in heading) >= _MIN_HEADING_LINES
        )
        if outlook or _ORIGINAL_MESSAGE_LINE.fullmatch(line.strip()):
            own = lines[:number]
            while own and not own[-1].strip(" _-*"):
                own.pop()
            return own, lines[number:]
    return lines, []


def _split_trailing_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """Splits off the quote at the end, with its attribution line. A signature may follow it."""
    end = len(_strip_signature(lines))
    while end and not lines[end - 1]:
        end -= 1
    start = end
    while start and (_is_quoted(lines[start - 1]) or not lines[start - 1]):
        start -= 1
    if start == end or not any(map(_is_quoted, lines[start:end])):
        return lines, []
    while not _is_quoted(lines[start]):
        start += 1
    quoted = [_unquote(line) for line in lines[start:end]]
    return _strip_attribution(lines[:start]) + lines[end:], quoted


def _split_leading_quote(lines: list[str]) -> tuple[list[str], list[str]]:
    """Splits off the quote at the beginning, unless there is another one further down."""
    start = next((n for n, line in enumerate(lines) if _is_quoted(line)), None)
    if start is None or _join_lines(_strip_attribution(lines[:start])):
        return lines, []
    end = start
    while end < len(lines) and (_is_quoted(lines[end]) or not lines[end]):
        end += 1
    if any(map(_is_quoted, lines[end:])):
        return lines, []
    return lines[end:], [_unquote(line) for line in lines[start:end]]


def _strip_attribution(lines: list[str]) -> list[str]:
    """Without the attribution above a quote ("On …, Ann wrote:"), which may span several lines."""
    rest = list(lines)
    while rest and not rest[-1]:
        rest.pop()
    if not rest or not rest[-1].endswith(":"):
        return lines
    for number in range(min(_MAX_ATTRIBUTION_LINES, len(rest)), 0, -1):
        if _ATTRIBUTION_START.match(rest[-number]) and all(rest[-number:]):
            return rest[:-number]
    return rest[:-1] if _ATTRIBUTION_DETAIL.search(rest[-1]) else lines


def _strip_signature(lines: list[str]) -> list[str]:
    for number in range(max(0, len(lines) - _MAX_SIGNATURE_LINES), len(lines)):
        if _SIGNATURE.fullmatch(lines[number]) and not any(map(_is_quoted, lines[number:])):
            return lines[:number]
    rest = list(lines)
    while rest and not rest[-1]:
        rest.pop()
    return rest[:-1] if rest and _SENT_FROM.match(rest[-1]) else lines


def _is_quoted(line: str) -> bool:
    return line.startswith(">")


def _unquote(line: str) -> str:
    return re.sub(r"^> ?", "", line)


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n").rstrip()


class VerifiedSender(msgspec.Struct, frozen=True, kw_only=True):
    """The author of a mail that may be answered."""

    person: NamedAddress
    author: Author


class InboundMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail for intake, and what an answer in its thread needs."""

    inbound: Inbound
    thread_id: str
    thread_details: EmailThread


class MailIgnored(HoldfastError):
    """This mail is skipped, for the reason in the message."""


class EmailParser:
    """Parses the mail of one mailbox. Has no state."""

    def __init__(self, settings: EmailSettings, *, account: str) -> None:
        self._settings = settings
        self._account = account
        self._own_addresses = frozenset({settings.address, *settings.aliases})
        self._domain = domain_of(settings.address)

    @property
    def cursor_name(self) -> str:
        """Contains server and folder: each folder has UIDs of its own."""
        settings = self._settings
        return f"mail of {settings.address} at {settings.imap_host} in {settings.folder}"

    def verify_sender(self, headers: Message) -> VerifiedSender:
        """Raises `MailIgnored` for mails that must never be answered: bounces, our own mails, and
        mails with an unverified sender."""
        if is_bounce(headers):
            raise MailIgnored("it is a report about another mail")
        senders = header_addresses(headers, "From")
        if len(senders) != 1 or len(headers.get_all("From", [])) != 1:
            raise MailIgnored("it does not say whom it is from")
        author = classify_author(headers, own_addresses=self._own_addresses)
        if author is Author.SELF:
            raise MailIgnored("it is from this very mailbox")
        self._check_authentication(headers, senders[0])
        return VerifiedSender(person=senders[0], author=author)

    def _check_authentication(self, headers: Message, person: NamedAddress) -> None:
        if self._settings.trust_from:
            return
        by = self._settings.authserv_id
        if not is_authentic(headers, domain=domain_of(person.address), authserv_id=by):
            raise MailIgnored(
                "{by} does not confirm its sender {address}: no DMARC, DKIM or SPF check "
                "of that domain has passed",
                by=by,
                address=person.address,
            )

    def parse(
        self, headers: Message, sender: VerifiedSender, text: str, *, cursor: str
    ) -> InboundMail:
        message_id, references = self._message_id(headers), _references(headers)
        thread_id = thread_id_for(message_id, references, domain=self._domain)
        reply = split_reply(text, is_reply=bool(references) and not _is_forwarded(headers))
        inbound = Inbound(
            source=self._source(headers, sender, thread_id),
            event_id=_event_id(headers),
            message_id=message_id,
            text=_message_text(headers, reply.text, is_first=not references),
            sources=(source_label("mail from", sender.person.address),),
            mentioned=not self._is_cc(headers),
            quoted=self._quote(references, reply.quoted, thread_id),
            cursor=Cursor(name=self.cursor_name, value=cursor),
        )
        details = EmailThread(subject=_subject(headers), references=(*references, message_id))
        return InboundMail(inbound=inbound, thread_id=thread_id, thread_details=details)

    def _source(self, headers: Message, sender: VerifiedSender, thread_id: str) -> Source:
        """A direct chat with the author, also if the mail has other recipients: only the author is
        answered. A mail that has us only in Cc counts as a group message."""
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=sender.person.address,
            chat_type=ChatType.GROUP if self._is_cc(headers) else ChatType.DM,
            thread_id=thread_id,
            user_id=sender.person.address,
            user_name=sender.person.name or None,
            language=_language(headers),
            author=sender.author,
        )

    def _is_cc(self, headers: Message) -> bool:
        to = {each.address for each in header_addresses(headers, "To")}
        copied = {each.address for each in header_addresses(headers, "Cc")}
        return bool(self._own_addresses & copied) and not self._own_addresses & to

    def _quote(self, references: tuple[str, ...], text: str, thread_id: str) -> Quote | None:
        """Without the text of a mail that we sent in this thread: it is in the conversation."""
        if not references:
            return None
        answered = references[-1]
        known = thread_id_in(answered, domain=self._domain) == thread_id
        ours = is_own_message_id(answered, domain=self._domain)
        return Quote(text="" if known else text, message_id=answered, ours=ours)

    def _message_id(self, headers: Message) -> str:
        return next(
            iter(message_ids(headers, "Message-ID")), f"<{_event_id(headers)}@{self._domain}>"
        )


def domain_of(address: str) -> str:
    return address.rpartition("@")[2]


def _references(headers: Message) -> tuple[str, ...]:
    """Oldest first, the answered mail last."""
    found = (*message_ids(headers, "References"), *message_ids(headers, "In-Reply-To")[:1])
    return tuple(dict.fromkeys(reversed(found)))[::-1]


def _event_id(headers: Message) -> str:
    """The same for the same mail, also if the server renumbers its mail or delivers it twice. Not
    only the Message-ID: some programs give every mail the same one."""
    return digest(
        *(first_header(headers, each) for each in ("Message-ID", "From", "Date", "Subject"))
    )


def _subject(headers: Message) -> str:
    return decoded_header(headers, "Subject")[:_MAX_SUBJECT_LENGTH]


def _is_forwarded(headers: Message) -> bool:
    subject = _subject(headers).lower()
    return subject.startswith(("fwd:", "fw:", "wg:", "tr:", "rv:", "i:"))


def _message_text(headers: Message, text: str, *, is_first: bool) -> str:
    """The first mail of a thread has its subject in front, unless the text is a command."""
    if len(text) > _MAX_TEXT_LENGTH:
        rest = len(text) - _MAX_TEXT_LENGTH
        text = f"{text[:_MAX_TEXT_LENGTH]}\n\n[The mail continues: {rest} more characters]"
    subject = _subject(headers)
    if not is_first or not subject or text.startswith("/"):
        return text
    return f"Subject: {subject}\n\n{text}" if text.strip() else subject


def _language(headers: Message) -> str:
    """The language that the sender reads, else the one of the mail; "": neither is known. Mail
    programs that state them do so in these headers: https://www.rfc-editor.org/rfc/rfc3282"""
    for name in ("Accept-Language", "Content-Language"):
        if found := accepted_languages(str(headers.get(name, ""))):
            return found[0][:_MAX_LANGUAGE_LENGTH]
    return ""
