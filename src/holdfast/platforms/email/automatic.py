"""Automatic mail: what a program has written, by what its headers say."""

from email.message import Message

from holdfast.core.messages.source import Author
from holdfast.platforms.email.headers import NamedAddress, first_header, header_addresses

DELIVERY_HEADER = "X-Holdfast-Delivery"  # of what a gateway like this one has sent

_DAEMON_NAMES = ("mailer-daemon", "postmaster", "mail-daemon", "double-bounce")
# Set on what nobody has written to this address in particular.
_LIST_HEADERS = ("List-Id", "List-Unsubscribe", "List-Post", "Feedback-ID")
_AUTOREPLY_HEADERS = ("X-Autoreply", "X-Autorespond", "X-Autoresponse", "X-Auto-Response-Suppress")
_AUTOMATIC_PRECEDENCES = ("bulk", "list", "junk", "auto_reply")


def is_bounce(headers: Message) -> bool:
    """A report about a mail, which must never be answered: RFC 3834, RFC 5321 4.5.5."""
    if first_header(headers, "Return-Path") == "<>":
        return True
    if headers.get_content_type() == "multipart/report":
        return True
    return any(
        _local_part(each) in _DAEMON_NAMES for each in header_addresses(headers, "From", "Sender")
    )


def classify_author(headers: Message, *, own_addresses: frozenset[str]) -> Author:
    """https://www.rfc-editor.org/rfc/rfc3834#section-5, and what programs do that are older."""
    if any(each.address in own_addresses for each in header_addresses(headers, "From", "Sender")):
        return Author.SELF
    submitted = first_header(headers, "Auto-Submitted").partition(";")[0].strip().lower()
    automatic = (
        submitted not in ("", "no")
        or first_header(headers, "Precedence").lower() in _AUTOMATIC_PRECEDENCES
        or any(name in headers for name in (*_LIST_HEADERS, *_AUTOREPLY_HEADERS, DELIVERY_HEADER))
    )
    return Author.BOT if automatic else Author.PERSON


def _local_part(person: NamedAddress) -> str:
    return person.address.partition("@")[0]
