"""Whether a mail is from its From address (SPF, DKIM and DMARC), and whether a program wrote it.

https://www.rfc-editor.org/rfc/rfc8601: the receiving server adds a header Authentication-Results
that begins with its own name, and removes any such header that came with the mail.
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

DELIVERY_HEADER = "X-Holdfast-Delivery"  # on mails that were sent by a gateway
_DAEMON_NAMES = ("mailer-daemon", "postmaster", "mail-daemon", "double-bounce")
# On mails that were not written to this address in particular.
_LIST_HEADERS = ("List-Id", "List-Unsubscribe", "List-Post", "Feedback-ID")
_AUTOREPLY_HEADERS = ("X-Autoreply", "X-Autorespond", "X-Autoresponse", "X-Auto-Response-Suppress")
_AUTOMATIC_PRECEDENCES = ("bulk", "list", "junk", "auto_reply")
_QUOTED_OR_CHARACTER = re.compile(r'"(?:\\.|[^"\\])*"?|.', re.DOTALL)
_TOKEN = re.compile(r'((?:"(?:\\.|[^"\\])*"?|[^\s;"])+)|(;)')


class AuthenticationResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check, such as SPF or DKIM."""

    method: str
    result: str
    properties: dict[str, str]  # "header.d": "example.org"


def is_authentic(headers: Message, *, domain: str, authserv_id: str) -> bool:
    """Only the topmost header of that server counts: a server adds its header at the top, so any
    below it may have come with the mail."""
    for value in header_values(headers, "Authentication-Results"):
        name, *clauses = _split_clauses(value)
        if name and name[0].lower() == authserv_id.lower():
            return _passes([each for each in map(_parse_result, clauses) if each], domain)
    return False


def _passes(results: list[AuthenticationResult], domain: str) -> bool:
    """A DMARC failure overrides SPF and DKIM: a domain may require strict alignment, so that one
    subdomain cannot write as another."""
    if any(each.method == "dmarc" and each.result == "fail" for each in results):
        return False
    return any(_result_passes(each, domain) for each in results)


def _result_passes(result: AuthenticationResult, domain: str) -> bool:
    """DMARC itself compares with From. SPF and DKIM only say which domain sent or signed, so that
    domain must be the one of From or a parent of it."""
    if result.result != "pass":
        return False
    properties = result.properties
    match result.method:
        case "dmarc":
            return properties.get("header.from", "").lower() == domain
        case "dkim":
            signer = properties.get("header.d") or properties.get("header.i", "").rpartition("@")[2]
            return _is_parent_domain(signer.lower(), domain)
        case "spf":
            sender = properties.get("smtp.mailfrom", "")
            return _is_parent_domain(sender.rpartition("@")[2].lower(), domain)
    return False


def _is_parent_domain(parent: str, domain: str) -> bool:
    return "." in parent and (domain == parent or domain.endswith(f".{parent}"))


def _parse_result(tokens: list[str]) -> AuthenticationResult | None:
    method, equals, result = tokens[0].partition("=") if tokens else ("", "", "")
    if not equals:
        return None
    return AuthenticationResult(
        method=method.partition("/")[0].lower(),
        result=result.lower(),
        properties=_parse_properties(tokens[1:]),
    )


def _parse_properties(tokens: list[str]) -> dict[str, str]:
    """No server writes a property twice. A second one may come from the sender, in an address that
    the server copied without quotes: then no property is trusted."""
    pairs = [(name.lower(), value) for name, _, value in (each.partition("=") for each in tokens)]
    properties = dict(pairs)
    return properties if len(properties) == len(pairs) else {}


def _split_clauses(value: str) -> list[list[str]]:
    """The tokens of each clause between semicolons, without comments, and with a quoted string as
    one token: the sender may control the contents of both."""
    clauses: list[list[str]] = [[]]
    for word, end in _TOKEN.findall(_strip_comments(value)):
        if end:
            clauses.append([])
        else:
            clauses[-1].append(re.sub(r'"|\\(.)', r"\1", word))
    return clauses


def _strip_comments(value: str) -> str:
    results: list[str] = []
    at = 0
    while at < len(value):
        if value[at] == "(":
            results.append(" ")
            at = _comment_end(value, at)
        else:
            found = _QUOTED_OR_CHARACTER.match(value, at)
            assert found is not None, "the pattern matches any character"
            results.append(found[0])
            at = found.end()
    return "".join(results)


def _comment_end(value: str, at: int) -> int:
    """Comments nest, and quotes have no meaning in them."""
    depth = 0
    while at < len(value):
        depth += (value[at] == "(") - (value[at] == ")")
        at += 2 if value[at] == "\\" else 1
        if not depth:
            break
    return at


def is_bounce(headers: Message) -> bool:
    """A report about another mail, which must never be answered: RFC 3834, RFC 5321 4.5.5."""
    if first_header(headers, "Return-Path") == "<>":
        return True
    if headers.get_content_type() == "multipart/report":
        return True
    return any(
        _local_part(each) in _DAEMON_NAMES for each in header_addresses(headers, "From", "Sender")
    )


def classify_author(headers: Message, *, own_addresses: frozenset[str]) -> Author:
    """https://www.rfc-editor.org/rfc/rfc3834#section-5, and the conventions of older programs."""
    if any(each.address in own_addresses for each in header_addresses(headers, "From", "Sender")):
        return Author.SELF
    submitted = first_header(headers, "Auto-Submitted").partition(";")[0].strip().lower()
    automatic = (
        submitted not in ("", "no")
        or first_header(headers, "Precedence").lower() in _AUTOMATIC_PRECEDENCES
        or any(name in headers for name in (*_LIST_HEADERS, *_AUTOREPLY_HEADERS, DELIVERY_HEADER))
    )
    return Author.BOT if automatic else Author.PERSON


def _local_part(named: NamedAddress) -> str:
    return named.address.partition("@")[0]
