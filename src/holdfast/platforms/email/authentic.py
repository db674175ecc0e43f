"""Whether a mail is from whom it says: by what the server that received it has found out.

https://www.rfc-editor.org/rfc/rfc8601: that server writes a header Authentication-Results which
begins with its own name, and takes off any that came with the mail and begin so.
"""

import re
from email.message import Message

import msgspec

from holdfast.platforms.email.headers import every

_SIGN = re.compile(r'"(?:\\.|[^"\\])*"?|.', re.DOTALL)  # a quoted string, or one sign
_WORD = re.compile(r'((?:"(?:\\.|[^"\\])*"?|[^\s;"])+)|(;)')


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one check."""

    method: str
    result: str
    properties: dict[str, str]  # "header.d": "example.org"


def is_authentic(headers: Message, *, domain: str, by: str) -> bool:
    """Only the uppermost header of that server counts: a server writes on top, so whatever stands
    below may have come with the mail."""
    for value in every(headers, "Authentication-Results"):
        name, *clauses = _clauses(value)
        if name and name[0].lower() == by.lower():
            return _is_vouched([each for each in map(_finding, clauses) if each], domain)
    return False


def _is_vouched(findings: list[Finding], domain: str) -> bool:
    """What DMARC says of From goes before what it is made of: a domain may ask for more, so that
    nobody below it writes as another."""
    if any(each.method == "dmarc" and each.result == "fail" for each in findings):
        return False
    return any(_vouches(each, domain) for each in findings)


def _vouches(finding: Finding, domain: str) -> bool:
    """DMARC compares with From by itself, as that server has read it; the other two say only that
    somebody has signed or sent, so that their domain has to be that of From, or one above it."""
    if finding.result != "pass":
        return False
    said = finding.properties
    match finding.method:
        case "dmarc":
            return said.get("header.from", "").lower() == domain
        case "dkim":
            signer = said.get("header.d") or said.get("header.i", "").rpartition("@")[2]
            return _is_above(signer.lower(), domain)
        case "spf":
            sender = said.get("smtp.mailfrom", "")
            return _is_above(sender.rpartition("@")[2].lower(), domain)
    return False


def _is_above(one: str, domain: str) -> bool:
    return "." in one and (domain == one or domain.endswith(f".{one}"))


def _finding(words: list[str]) -> Finding | None:
    method, sign, result = words[0].partition("=") if words else ("", "", "")
    if not sign:
        return None
    return Finding(
        method=method.partition("/")[0].lower(), result=result.lower(), properties=_said(words[1:])
    )


def _said(words: list[str]) -> dict[str, str]:
    """No server says one thing twice. A sender may have said it the second time, in an address
    that the server wrote down without its quotes: then nothing of it is believed."""
    pairs = [(name.lower(), value) for name, _, value in (word.partition("=") for word in words)]
    said = dict(pairs)
    return said if len(said) == len(pairs) else {}


def _clauses(value: str) -> list[list[str]]:
    """The words of each part between semicolons. What stands in a comment is not said, and what
    stands in quotes is one word: both may be of the sender's making."""
    clauses: list[list[str]] = [[]]
    for word, end in _WORD.findall(_uncommented(value)):
        if end:
            clauses.append([])
        else:
            clauses[-1].append(re.sub(r'"|\\(.)', r"\1", word))
    return clauses


def _uncommented(value: str) -> str:
    kept: list[str] = []
    at = 0
    while at < len(value):
        if value[at] == "(":
            kept.append(" ")
            at = _behind_comment(value, at)
        else:
            said = _SIGN.match(value, at)
            assert said is not None, "it matches any sign"
            kept.append(said[0])
            at = said.end()
    return "".join(kept)


def _behind_comment(value: str, at: int) -> int:
    """Comments nest, and quotes mean nothing in them."""
    depth = 0
    while at < len(value):
        depth += (value[at] == "(") - (value[at] == ")")
        at += 2 if value[at] == "\\" else 1
        if not depth:
            break
    return at
