"""Automatic mail: what a program has written, by what its headers say."""

from email.message import Message

from holdfast.core.messages.source import Author
from holdfast.platforms.email.headers import Person, first, people

MARK = "X-Holdfast-Delivery"  # of what a gateway like this one has sent

_DAEMONS = ("mailer-daemon", "postmaster", "mail-daemon", "double-bounce")
# Set on what nobody has written to this address in particular.
_ON_LISTS = ("List-Id", "List-Unsubscribe", "List-Post", "Feedback-ID")
_ON_REPLIES = ("X-Autoreply", "X-Autorespond", "X-Autoresponse", "X-Auto-Response-Suppress")
_PRECEDENCES = ("bulk", "list", "junk", "auto_reply")


def is_bounce(headers: Message) -> bool:
    """A report about a mail, which must never be answered: RFC 3834, RFC 5321 4.5.5."""
    if first(headers, "Return-Path") == "<>":
        return True
    if headers.get_content_type() == "multipart/report":
        return True
    return any(_local(each) in _DAEMONS for each in people(headers, "From", "Sender"))


def author_of(headers: Message, *, ours: frozenset[str]) -> Author:
    """https://www.rfc-editor.org/rfc/rfc3834#section-5, and what programs do that are older."""
    if any(each.address in ours for each in people(headers, "From", "Sender")):
        return Author.OURSELVES
    submitted = first(headers, "Auto-Submitted").partition(";")[0].strip().lower()
    automatic = (
        submitted not in ("", "no")
        or first(headers, "Precedence").lower() in _PRECEDENCES
        or any(name in headers for name in (*_ON_LISTS, *_ON_REPLIES, MARK))
    )
    return Author.BOT if automatic else Author.PERSON


def _local(person: Person) -> str:
    return person.address.partition("@")[0]
