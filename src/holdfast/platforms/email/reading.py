"""Reading: a mail in our words."""

from email.message import Message

import msgspec

from holdfast.core.errors import HoldfastError
from holdfast.core.messages.inbox import Cursor, Inbound
from holdfast.core.messages.quote import Quote
from holdfast.core.messages.source import Author, ChatType, Source
from holdfast.platforms.email.authentic import is_authentic
from holdfast.platforms.email.automatic import author_of, is_bounce
from holdfast.platforms.email.headers import Person, decoded, first, ids, people
from holdfast.platforms.email.names import digest, is_ours, thread_in, thread_of
from holdfast.platforms.email.plugin import EmailSettings
from holdfast.platforms.email.threads import Thread
from holdfast.platforms.email.words import parted

PLATFORM = "email"

_LONGEST = 100_000  # characters of one mail that the agent is given
_LONGEST_SUBJECT = 500  # characters of it that are read, and said in an answer


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """Who has written a mail that may be answered."""

    person: Person
    author: Author


class Letter(msgspec.Struct, frozen=True, kw_only=True):
    """A mail as it is handed over, and what an answer in its thread has to say."""

    inbound: Inbound
    thread: str
    known: Thread


class NotAnswered(HoldfastError):
    """This mail is passed over, for that reason."""


class Reader:
    """Reads the mail of one mailbox; keeps nothing but whose that is."""

    def __init__(self, settings: EmailSettings, *, account: str) -> None:
        self._settings = settings
        self._account = account
        self._ours = frozenset({settings.address, *settings.aliases})
        self._domain = domain_of(settings.address)

    @property
    def cursor(self) -> str:
        """Of this very folder: another one under the same name counts its mail from elsewhere."""
        settings = self._settings
        return f"mail of {settings.address} at {settings.imap_host} in {settings.folder}"

    def sender(self, headers: Message) -> Sender:
        """Raises `NotAnswered` for what must not be answered, whoever may talk here: reports, our
        own mail, and what could be from anybody."""
        if is_bounce(headers):
            raise NotAnswered("it is a report about another mail")
        named = people(headers, "From")
        if len(named) != 1 or len(headers.get_all("From", [])) != 1:
            raise NotAnswered("it does not say whom it is from")
        author = author_of(headers, ours=self._ours)
        if author is Author.OURSELVES:
            raise NotAnswered("it is from this very mailbox")
        self._check_author(headers, named[0])
        return Sender(person=named[0], author=author)

    def _check_author(self, headers: Message, person: Person) -> None:
        if self._settings.trust_from:
            return
        by = self._settings.authserv_id
        if not is_authentic(headers, domain=domain_of(person.address), by=by):
            raise NotAnswered(
                f"{by} does not say that it is from {person.address}: no DMARC, DKIM or SPF of "
                "that domain has passed"
            )

    def letter(self, headers: Message, sender: Sender, text: str, *, cursor: str) -> Letter:
        name, before = self._name(headers), _references(headers)
        thread = thread_of(name, before, domain=self._domain)
        written = parted(text, answers=bool(before) and not _is_forwarded(headers))
        inbound = Inbound(
            source=self._source(headers, sender, thread),
            event_id=_event(headers),
            message_id=name,
            text=_shown(headers, written.words, opens=not before),
            mentioned=not self._is_copied(headers),
            quoted=self._quoted(before, written.quoted, thread),
            cursor=Cursor(name=self.cursor, value=cursor),
        )
        known = Thread(subject=_subject(headers), references=(*before, name))
        return Letter(inbound=inbound, thread=thread, known=known)

    def _source(self, headers: Message, sender: Sender, thread: str) -> Source:
        """A chat of two with whoever writes, also where others read: answered are they alone. What
        we only get a copy of is said among others."""
        return Source(
            platform=PLATFORM,
            account=self._account,
            chat_id=sender.person.address,
            chat_type=ChatType.GROUP if self._is_copied(headers) else ChatType.DM,
            thread_id=thread,
            user_id=sender.person.address,
            user_name=sender.person.name or None,
            author=sender.author,
        )

    def _is_copied(self, headers: Message) -> bool:
        to = {each.address for each in people(headers, "To")}
        copied = {each.address for each in people(headers, "Cc")}
        return bool(self._ours & copied) and not self._ours & to

    def _quoted(self, before: tuple[str, ...], text: str, thread: str) -> Quote | None:
        """What we have written in this thread is in the conversation already."""
        if not before:
            return None
        answered = before[-1]
        known = thread_in(answered, domain=self._domain) == thread
        ours = is_ours(answered, domain=self._domain)
        return Quote(text="" if known else text, message_id=answered, ours=ours)

    def _name(self, headers: Message) -> str:
        return next(iter(ids(headers, "Message-ID")), f"<{_event(headers)}@{self._domain}>")


def domain_of(address: str) -> str:
    return address.rpartition("@")[2]


def _references(headers: Message) -> tuple[str, ...]:
    """The oldest first; what is answered last."""
    before = (*ids(headers, "References"), *ids(headers, "In-Reply-To")[:1])
    return tuple(dict.fromkeys(reversed(before)))[::-1]


def _event(headers: Message) -> str:
    """The same for the same mail, also where the server numbers its mail anew or brings it twice.
    By more than its name: there are programs that give every mail the same one."""
    return digest(*(first(headers, each) for each in ("Message-ID", "From", "Date", "Subject")))


def _subject(headers: Message) -> str:
    return decoded(headers, "Subject")[:_LONGEST_SUBJECT]


def _is_forwarded(headers: Message) -> bool:
    subject = _subject(headers).lower()
    return subject.startswith(("fwd:", "fw:", "wg:", "tr:", "rv:", "i:"))


def _shown(headers: Message, words: str, *, opens: bool) -> str:
    """The subject is part of what the first mail of a thread says, unless that is a command."""
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]}\n\n[The mail goes on: {len(words) - _LONGEST} characters more]"
    subject = _subject(headers)
    if not opens or not subject or words.startswith("/"):
        return words
    return f"Subject: {subject}\n\n{words}" if words.strip() else subject
