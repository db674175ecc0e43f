"""Whether a mail is from its From address (SPF, DKIM and DMARC), and whether a program wrote it.

https://www.rfc-editor.org/rfc/rfc8601: the receiving server writes a header Authentication-Results which begins with its
own name, and removes any that came with the mail and begin so.
"""

import re
from email.message import Message

import msgspec

from holdfast.core.messages.source import Author
from holdfast.platforms.email.mime import (
    NamedAddress,
    first_header,
    header_addresses,
    header_values,
)

# MERGED holdfast.platforms.email.authentic: Whether a mail is from whom it says: by what the server that received it has found out.
#
# https://www.rfc-editor.org/rfc/rfc8601: that server writes a header Authentication-Results which
# begins with its own name, and takes off any that came with the mail and begin so.
_QUOTED_OR_CHARACTER = re.compile(
    r'"(?:\\.|[^"\\])*"?|.', re.DOTALL
)  # a quoted string, or one sign
_TOKEN = re.compile(r'((?:"(?:\\.|[^"\\])*"?|[^\s;"])+)|(;)')


class AuthenticationResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check."""

    method: str
    result: str
    properties: dict[str, str]  # "header.d": "example.org"


def is_authentic(headers: Message, *, domain: str, authserv_id: str) -> bool:
    """Only the uppermost header of that server counts: a server writes on top, so whatever stands
    below may have come with the mail."""
    for value in header_values(headers, "Authentication-Results"):
        name, *clauses = _split_clauses(value)
        if name and name[0].lower() == authserv_id.lower():
            return _passes([each for each in map(_parse_result, clauses) if each], domain)
    return False


def _passes(results: list[AuthenticationResult], domain: str) -> bool:
    """What DMARC says of From goes before what it is made of: a domain may ask for more, so that
    nobody below it writes as another."""
    if any(each.method == "dmarc" and each.result == "fail" for each in results):
        return False
    return any(_result_passes(each, domain) for each in results)


def _result_passes(result: AuthenticationResult, domain: str) -> bool:
    """DMARC compares with From by itself, as that server has read it; the other two say only that
    somebody has signed or sent, so that their domain has to be that of From, or one above it."""
    if result.result != "pass":
        return False
    said = result.properties
    match result.method:
        case "dmarc":
            return said.get("header.from", "").lower() == domain
        case "dkim":
            signer = said.get("header.d") or said.get("header.i", "").rpartition("@")[2]
            return _is_parent_domain(signer.lower(), domain)
        case "spf":
            sender = said.get("smtp.mailfrom", "")
            return _is_parent_domain(sender.rpartition("@")[2].lower(), domain)
    return False


def _is_parent_domain(parent: str, domain: str) -> bool:
    return "." in parent and (domain == parent or domain.endswith(f".{parent}"))


def _parse_result(tokens: list[str]) -> AuthenticationResult | None:
    method, sign, result = tokens[0].partition("=") if tokens else ("", "", "")
    if not sign:
        return None
    return AuthenticationResult(
        method=method.partition("/")[0].lower(),
        result=result.lower(),
        properties=_parse_properties(tokens[1:]),
    )


def _parse_properties(tokens: list[str]) -> dict[str, str]:
    """No server says one thing twice. A sender may have said it the second time, in an address
    that the server wrote down without its quotes: then nothing of it is believed."""
    pairs = [(name.lower(), value) for name, _, value in (word.partition("=") for word in tokens)]
    said = dict(pairs)
    return said if len(said) == len(pairs) else {}


def _split_clauses(value: str) -> list[list[str]]:
    """The words of each part between semicolons. What stands in a comment is not said, and what
    stands in quotes is one word: both may be of the sender's making."""
    clauses: list[list[str]] = [[]]
    for word, end in _TOKEN.findall(_strip_comments(value)):
        if end:
            clauses.append([])
        else:
            clauses[-1].append(re.sub(r'"|\\(.)', r"\1", word))
    return clauses


def _strip_comments(value: str) -> str:
    kept: list[str] = []
    at = 0
    while at < len(value):
        if value[at] == "(":
            kept.append(" ")
            at = _comment_end(value, at)
        else:
            said = _QUOTED_OR_CHARACTER.match(value, at)
            assert said is not None, "it matches any sign"
            kept.append(said[0])
            at = said.end()
    return "".join(kept)


def _comment_end(value: str, at: int) -> int:
    """Comments nest, and quotes mean nothing in them."""
    depth = 0
    while at < len(value):
        depth += (value[at] == "(") - (value[at] == ")")
        at += 2 if value[at] == "\\" else 1
        if not depth:
            break
    return at


# MERGED holdfast.platforms.email.automatic: Automatic mail: what a program has written, by what its headers say.
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
