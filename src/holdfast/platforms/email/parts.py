"""The parts of a mail, found in its bytes by the lines that bound them.

https://www.rfc-editor.org/rfc/rfc2046#section-5.1. The library that reads mails asks of every line
whether it ends one of the parts that are open, so that a few megabytes of lines in fifty parts keep
it busy for half a minute. Here the bounds are looked for, and no line is looked at: the work is
that of so many parts, and of all bytes once for every depth.
"""

import binascii
import re
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesHeaderParser

import msgspec

MOST_PARTS = 200  # those that hold others are some, too
_MOST_HEADERS = 128 * 1024  # bytes, of all parts together
_MOST_BOUNDS = 5000  # what begins like a bound and is none is looked at as well
_DEEPEST = 10  # parts in parts
_LONGEST_VALUE = 4096  # characters of a header that says what a part is
_HEADER = re.compile(rb"(?:[!-9;-~]*:|[ \t]|From )")
_HEADERS = re.compile(rb"(?:" + _HEADER.pattern + rb"[^\n]*(?:\n|\Z))*")
_BLANK = re.compile(rb"\r?\n")
_REST_OF_BOUND = re.compile(rb"(--)?[ \t]*(?:\r?\n|\Z)")
_ABOUT = ("Content-Type", "Content-Disposition", "Content-Transfer-Encoding")

Span = tuple[int, int]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One that holds something, and no other parts."""

    headers: Message
    body: bytes  # as it was sent

    @property
    def kind(self) -> str:
        return self.headers.get_content_type()

    def data(self, most: int | None = None) -> bytes:
        """What it holds; of the body at most so many bytes."""
        body = self.body[:most]
        match str(self.headers.get("Content-Transfer-Encoding", "")).strip().lower():
            case "base64":
                return _from_base64(body)
            case "quoted-printable":
                return binascii.a2b_qp(body)
        return body


class Division:
    """Owns one mail, and how much may still be done about it. `cut`: there was more than that, and
    it was left out."""

    def __init__(self, source: bytes) -> None:
        self.cut = False
        self._source = source
        self._parts = MOST_PARTS
        self._headers = _MOST_HEADERS
        self._bounds = _MOST_BOUNDS

    def parts(self) -> Iterator[Part]:
        """In their order. A mail within the mail is one of them."""
        waiting = [((0, len(self._source)), 0)]
        while waiting and self._parts:
            self._parts -= 1
            whole, depth = waiting.pop()
            headers, body = self._read(*whole)
            found = self._inside(headers, body)
            if not found:
                yield Part(headers=headers, body=self._source[slice(*body)])
            elif depth < _DEEPEST:
                waiting.extend((each, depth + 1) for each in reversed(found))
            else:
                self.cut = True
        self.cut = self.cut or bool(waiting)

    def _read(self, start: int, end: int) -> tuple[Message, Span]:
        """Its headers, and where its body is. A line that is no header ends them, blank or not."""
        limit = min(end, start + self._headers)
        found = _HEADERS.match(self._source, start, limit)
        at = start if found is None else found.end()
        self._headers -= at - start
        headers = BytesHeaderParser().parsebytes(self._source[start:at] + b"\n")
        _shorten(headers)
        if limit < end and (at == limit or _HEADER.match(self._source, at, end)):
            self.cut = True  # there are more of them, and nobody knows where they end
            return headers, (end, end)
        blank = _BLANK.match(self._source, at, end)
        return headers, (at if blank is None else blank.end(), end)

    def _inside(self, headers: Message, body: Span) -> list[Span]:
        boundary = headers.get_boundary()
        if headers.get_content_maintype() != "multipart" or not boundary:
            return []
        return list(self._between(*body, b"\n--" + boundary.encode("utf-8", "surrogateescape")))

    def _between(self, start: int, end: int, bound: bytes) -> Iterator[Span]:
        """What stands between two bounds. The last may be missing, as in half a mail."""
        source, begin = self._source, -1
        at = source.find(bound, max(start - 1, 0), end)  # a line has ended there, too
        while at >= 0 and self._bounds:
            self._bounds -= 1
            rest = _REST_OF_BOUND.match(source, at + len(bound), end)
            if rest is not None:
                if begin >= 0:
                    yield begin, max(begin, at - source.endswith(b"\r", begin, at))
                if rest[1]:
                    return
                begin = rest.end()
            at = source.find(bound, at + len(bound), end)
        self.cut = self.cut or at >= 0
        if begin >= 0:
            yield begin, end


def _shorten(headers: Message) -> None:
    """To take a value apart takes the square of its length."""
    for name in _ABOUT:
        value = headers.get(name)
        if value is not None and len(str(value)) > _LONGEST_VALUE:
            del headers[name]
            headers[name] = str(value)[:_LONGEST_VALUE]


def _from_base64(body: bytes) -> bytes:
    """As much as can be read: programs leave its end out, and half a mail has none."""
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        signs = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
        return binascii.a2b_base64(signs[: len(signs) // 4 * 4])
