"""A mail as an inbound message: its sender, its reply text without quotes and signature, its thread."""

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

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.email.names: Names of mails: of those that we send, and of the thread that one belongs to.
_NO_THREAD = "0"
_THREAD = re.compile(r"[0-9a-f]{24}")
_OWN_MESSAGE_ID = re.compile(r"<hf\.[A-Za-z0-9_.-]+\.([0-9a-f]{24}|0)@(.+)>")


def message_id_of(delivery_id: DeliveryId, thread_id: str | None, *, domain: str) -> str:
    """The Message-ID of a delivery, the same in every attempt. It has the thread in it: some
    programs name only the mail that they answer, and not the one that everything began with."""
    delivery = re.sub(r"[^A-Za-z0-9_.-]", "-", delivery_id)
    known = thread_id if thread_id and _THREAD.fullmatch(thread_id) else _NO_THREAD
    return f"<hf.{delivery}.{known}@{domain}>"


def is_own_message_id(message_id: str, *, domain: str) -> bool:
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    return found is not None and found[2] == domain


def thread_id_in(message_id: str, *, domain: str) -> str | None:
    """The thread that a mail of ours was sent into; None: it is none of ours, or began one."""
    found = _OWN_MESSAGE_ID.fullmatch(message_id)
    if found is None or found[2] != domain or found[1] == _NO_THREAD:
        return None
    return found[1]


def thread_id_for(message_id: str, references: Sequence[str], *, domain: str) -> str:
    """Of a mail with that name which refers to these, the oldest of them first."""
    known = (thread_id_in(each, domain=domain) for each in references)
    return next(filter(None, known), None) or digest(next(iter(references), message_id))


def digest(*parts: str) -> str:
    said = "\n".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(said, digest_size=12).hexdigest()


# MERGED holdfast.platforms.email.threads: Threads: what an answer has to say so that programs show it under what it answers.
#
# A delivery says to whom it goes and into which thread; the subject of that thread and the names of
# its mails are nobody's business but of this platform, so they are kept here.
_MAX_REFERENCES = 10  # of mails that an answer refers to: the first and the last ones
_LOSS_CONSEQUENCE = "an answer in this thread begins one of its own."
_RETENTION_SECONDS = 400 * 86400.0  # seconds since it was last written in


class EmailThread(msgspec.Struct, frozen=True, kw_only=True):
    """`references` ends with the mail that is to be answered."""

    subject: str
    references: tuple[str, ...]


class ThreadFiles:
    """Owns a folder with one small file a thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, chat: str, thread_id: str, details: EmailThread) -> bool:
        """Whether it is a new one. Durable when this returns: an answer may be owed from then on.
        Raises `TransientStoreError`."""
        fresh = await self.get(chat, thread_id) is None
        first, *rest = details.references
        names = (first, *rest[1 - _MAX_REFERENCES :])
        kept = msgspec.structs.replace(details, references=names)
        await state_file.save(self._path(chat, thread_id), kept)
        return fresh

    async def get(self, chat: str, thread_id: str) -> EmailThread | None:
        """None: nothing is known of it, and an answer begins one of its own."""
        path = self._path(chat, thread_id)
        return await asyncio.to_thread(
            state_file.load, path, EmailThread, consequence=_LOSS_CONSEQUENCE
        )

    async def delete(self, chat: str, thread_id: str) -> None:
        await asyncio.to_thread(self._path(chat, thread_id).unlink, missing_ok=True)

    async def remove_stale(self, now: float) -> None:
        """Those in which nobody has written for more than a year go."""
        try:
            await asyncio.to_thread(self._remove_stale_files, now - _RETENTION_SECONDS)
        except OSError as error:
            log.warning(
                "Threads are not tidied: %s", error, extra={"action": "threads_not_cleaned"}
            )

    def _remove_stale_files(self, before: float) -> None:
        for path in self._folder.glob("*.json"):
            if path.stat().st_mtime < before:
                path.unlink(missing_ok=True)

    def _path(self, chat: str, thread_id: str) -> Path:
        return self._folder / f"{digest(chat, thread_id)}.json"


# MERGED holdfast.platforms.email.words: Words: what somebody has written this time, apart from what they quote and sign with.
_SIGNATURE = re.compile(r"-- ?")  # RFC 3676 4.3; some programs take the blank off
_MAX_SIGNATURE_LINES = 12  # lines; above more than that, the two dashes are the writer's own
_SENT_FROM = re.compile(
    r"(Sent from (my|Mail|Outlook|Yahoo|Proton)|Get Outlook for|Gesendet von (meinem|Mail|Outlook)|"
    r"Von meinem \w+ gesendet|Envoyé (de mon|depuis))"
)
_ORIGINAL_MESSAGE_LINE = re.compile(
    r"-{2,} ?(Original Message|Ursprüngliche Nachricht|Message d'origine|Mensaje original|"
    r"Messaggio originale|Oorspronkelijk bericht) ?-{2,}",
    re.IGNORECASE,
)
# What Outlook puts above the mail that is answered: some such lines in a row.
_HEADING = re.compile(
    r"\*?(From|Sent|To|Cc|Date|Subject|Von|Gesendet|An|Betreff|Datum|De|Envoyé|À|Objet|Da|Inviato|"
    r"Oggetto|Para|Enviado|Asunto|Van|Verzonden|Aan|Onderwerp) ?:\*? \S",
)
_FIRST_HEADING = re.compile(r"\*?(From|Von|De|Da|Van) ?:\*? \S")
_MIN_HEADING_LINES = 3  # lines of it, at the least
_ATTRIBUTION_START = re.compile(r"(On|Am|Le|El|Il|Op|Em|Den|W dniu) ")
# A sentence of the writer may end in a colon, too; this one names an address or a time.
_ATTRIBUTION_DETAIL = re.compile(r"@|\d:\d\d|\d{4}|(wrote|schrieb|écrit) ?:$")
_MAX_ATTRIBUTION_LINES = 3  # lines of "On …, Ann <ann@example.org> wrote:"


class ReplyText(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    quoted: str = ""  # without its marks


def split_reply(text: str, *, is_reply: bool) -> ReplyText:
    """Only a quote above or below everything is cut off: between answers, it says to what they
    are. `answers`: the mail is a reply; one that is none has been forwarded, and what looks quoted
    in it is what it is about."""
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    if not is_reply:
        return ReplyText(text=_join_lines(_strip_signature(lines)))
    own, below = _split_heading(lines)
    if not below:
        own, below = _split_trailing_quote(lines)
    own, above = _split_leading_quote(own)
    quoted = _join_lines([*above, *below])
    words = _join_lines(_strip_signature(own))
    if not words and not quoted:
        return ReplyText(text=_join_lines(lines))
    return ReplyText(text=words, quoted=quoted)


def _split_heading(lines: list[str]) -> tuple[list[str], list[str]]:
    """From where a program has put the whole mail that is answered, without marks."""
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
    """The quote at the end, with the line that says whose it is. A signature may follow it."""
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
    """The quote at the beginning, unless there is another one further down."""
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
    """Without the line above a quote that says whose it is; it may have been broken into some."""
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    if not kept or not kept[-1].endswith(":"):
        return lines
    for number in range(min(_MAX_ATTRIBUTION_LINES, len(kept)), 0, -1):
        if _ATTRIBUTION_START.match(kept[-number]) and all(kept[-number:]):
            return kept[:-number]
    return kept[:-1] if _ATTRIBUTION_DETAIL.search(kept[-1]) else lines


def _strip_signature(lines: list[str]) -> list[str]:
    for number in range(max(0, len(lines) - _MAX_SIGNATURE_LINES), len(lines)):
        if _SIGNATURE.fullmatch(lines[number]) and not any(map(_is_quoted, lines[number:])):
            return lines[:number]
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept[:-1] if kept and _SENT_FROM.match(kept[-1]) else lines


def _is_quoted(line: str) -> bool:
    return line.startswith(">")


def _unquote(line: str) -> str:
    return re.sub(r"^> ?", "", line)


def _join_lines(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n").rstrip()


# MERGED holdfast.platforms.email.reading: Reading: a mail in our words.
PLATFORM = "email"

_MAX_TEXT_LENGTH = 100_000  # characters of one mail that the agent is given
_MAX_SUBJECT_LENGTH = 500  # characters of it that are read, and said in an answer


class VerifiedSender(msgspec.Struct, frozen=True, kw_only=True):
    """Who has written a mail that may be answered."""

    person: NamedAddress
    author: Author


class InboundMail(msgspec.Struct, frozen=True, kw_only=True):
    """A mail as it is handed over, and what an answer in its thread has to say."""

    inbound: Inbound
    thread_id: str
    thread_details: EmailThread


class MailIgnored(HoldfastError):
    """This mail is passed over, for that reason."""


class EmailParser:
    """Reads the mail of one mailbox; keeps nothing but whose that is."""

    def __init__(self, settings: EmailSettings, *, account: str) -> None:
        self._settings = settings
        self._account = account
        self._own_addresses = frozenset({settings.address, *settings.aliases})
        self._domain = domain_of(settings.address)

    @property
    def cursor_name(self) -> str:
        """Of this very folder: another one under the same name counts its mail from elsewhere."""
        settings = self._settings
        return f"mail of {settings.address} at {settings.imap_host} in {settings.folder}"

    def verify_sender(self, headers: Message) -> VerifiedSender:
        """Raises `MailIgnored` for what must not be answered, whoever may talk here: reports, our
        own mail, and what could be from anybody."""
        if is_bounce(headers):
            raise MailIgnored("it is a report about another mail")
        named = header_addresses(headers, "From")
        if len(named) != 1 or len(headers.get_all("From", [])) != 1:
            raise MailIgnored("it does not say whom it is from")
        author = classify_author(headers, own_addresses=self._own_addresses)
        if author is Author.SELF:
            raise MailIgnored("it is from this very mailbox")
        self._check_authentication(headers, named[0])
        return VerifiedSender(person=named[0], author=author)

    def _check_authentication(self, headers: Message, person: NamedAddress) -> None:
        if self._settings.trust_from:
            return
        by = self._settings.authserv_id
        if not is_authentic(headers, domain=domain_of(person.address), authserv_id=by):
            raise MailIgnored(
                f"{by} does not say that it is from {person.address}: no DMARC, DKIM or SPF of "
                "that domain has passed"
            )

    def parse(
        self, headers: Message, sender: VerifiedSender, text: str, *, cursor: str
    ) -> InboundMail:
        name, before = self._message_id(headers), _references(headers)
        thread = thread_id_for(name, before, domain=self._domain)
        written = split_reply(text, is_reply=bool(before) and not _is_forwarded(headers))
        inbound = Inbound(
            source=self._source(headers, sender, thread),
            event_id=_event_id(headers),
            message_id=name,
            text=_message_text(headers, written.text, is_first=not before),
            mentioned=not self._is_cc(headers),
            quoted=self._quote(before, written.quoted, thread),
            cursor=Cursor(name=self.cursor_name, value=cursor),
        )
        known = EmailThread(subject=_subject(headers), references=(*before, name))
        return InboundMail(inbound=inbound, thread_id=thread, thread_details=known)

    def _source(self, headers: Message, sender: VerifiedSender, thread_id: str) -> Source:
        """A chat of two with whoever writes, also where others read: answered are they alone. What
        we only get a copy of is said among others."""
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=sender.person.address,
            chat_type=ChatType.GROUP if self._is_cc(headers) else ChatType.DM,
            thread_id=thread_id,
            user_id=sender.person.address,
            user_name=sender.person.name or None,
            author=sender.author,
        )

    def _is_cc(self, headers: Message) -> bool:
        to = {each.address for each in header_addresses(headers, "To")}
        copied = {each.address for each in header_addresses(headers, "Cc")}
        return bool(self._own_addresses & copied) and not self._own_addresses & to

    def _quote(self, references: tuple[str, ...], text: str, thread_id: str) -> Quote | None:
        """What we have written in this thread is in the conversation already."""
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
    """The oldest first; what is answered last."""
    before = (*message_ids(headers, "References"), *message_ids(headers, "In-Reply-To")[:1])
    return tuple(dict.fromkeys(reversed(before)))[::-1]


def _event_id(headers: Message) -> str:
    """The same for the same mail, also where the server numbers its mail anew or brings it twice.
    By more than its name: there are programs that give every mail the same one."""
    return digest(
        *(first_header(headers, each) for each in ("Message-ID", "From", "Date", "Subject"))
    )


def _subject(headers: Message) -> str:
    return decoded_header(headers, "Subject")[:_MAX_SUBJECT_LENGTH]


def _is_forwarded(headers: Message) -> bool:
    subject = _subject(headers).lower()
    return subject.startswith(("fwd:", "fw:", "wg:", "tr:", "rv:", "i:"))


def _message_text(headers: Message, text: str, *, is_first: bool) -> str:
    """The subject is part of what the first mail of a thread says, unless that is a command."""
    if len(text) > _MAX_TEXT_LENGTH:
        text = f"{text[:_MAX_TEXT_LENGTH]}\n\n[The mail goes on: {len(text) - _MAX_TEXT_LENGTH} characters more]"
    subject = _subject(headers)
    if not is_first or not subject or text.startswith("/"):
        return text
    return f"Subject: {subject}\n\n{text}" if text.strip() else subject
