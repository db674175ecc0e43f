"""Reading: a mail in our words."""

from email.message import Message

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.platforms.email.authentic import is_authentic
from holdfast.platforms.email.automatic import classify_author, is_bounce
from holdfast.platforms.email.headers import (
    NamedAddress,
    decoded_header,
    first_header,
    header_addresses,
    message_ids,
)
from holdfast.platforms.email.names import digest, is_own_message_id, thread_id_for, thread_id_in
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.threads import EmailThread
from holdfast.platforms.email.words import split_reply

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
