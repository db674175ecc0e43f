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

MAX_PARTS = 200  # those that hold others are some, too
_MAX_HEADER_BYTES = 128 * 1024  # bytes, of all parts together
_MAX_BOUNDARIES = 5000  # what begins like a bound and is none is looked at as well
_MAX_PART_DEPTH = 10  # parts in parts
_MAX_HEADER_VALUE_LENGTH = 4096  # characters of a header that says what a part is
_HEADER = re.compile(rb"(?:[!-9;-~]*:|[ \t]|From )")
_HEADERS = re.compile(rb"(?:" + _HEADER.pattern + rb"[^\n]*(?:\n|\Z))*")
_BLANK = re.compile(rb"\r?\n")
_REST_OF_BOUNDARY = re.compile(rb"(--)?[ \t]*(?:\r?\n|\Z)")
_CONTENT_HEADERS = ("Content-Type", "Content-Disposition", "Content-Transfer-Encoding")

ByteRange = tuple[int, int]


class MimePart(msgspec.Struct, frozen=True, kw_only=True):
    """One that holds something, and no other parts."""

    headers: Message
    body: bytes  # as it was sent

    @property
    def content_type(self) -> str:
        return self.headers.get_content_type()

    def decode(self, max_bytes: int | None = None) -> bytes:
        """What it holds; of the body at most so many bytes."""
        body = self.body[:max_bytes]
        match str(self.headers.get("Content-Transfer-Encoding", "")).strip().lower():
            case "base64":
                return _decode_base64(body)
            case "quoted-printable":
                return binascii.a2b_qp(body)
        return body


class MimeSplitter:
    """Owns one mail, and how much may still be done about it. `cut`: there was more than that, and
    it was left out."""

    def __init__(self, source: bytes) -> None:
        self.truncated = False
        self._source = source
        self._parts_left = MAX_PARTS
        self._header_bytes_left = _MAX_HEADER_BYTES
        self._boundaries_left = _MAX_BOUNDARIES

    def parts(self) -> Iterator[MimePart]:
        """In their order. A mail within the mail is one of them."""
        waiting = [((0, len(self._source)), 0)]
        while waiting and self._parts_left:
            self._parts_left -= 1
            whole, depth = waiting.pop()
            headers, body = self._read_headers(*whole)
            found = self._child_ranges(headers, body)
            if not found:
                yield MimePart(headers=headers, body=self._source[slice(*body)])
            elif depth < _MAX_PART_DEPTH:
                waiting.extend((each, depth + 1) for each in reversed(found))
            else:
                self.truncated = True
        self.truncated = self.truncated or bool(waiting)

    def _read_headers(self, start: int, end: int) -> tuple[Message, ByteRange]:
        """Its headers, and where its body is. A line that is no header ends them, blank or not."""
        limit = min(end, start + self._header_bytes_left)
        found = _HEADERS.match(self._source, start, limit)
        at = start if found is None else found.end()
        self._header_bytes_left -= at - start
        headers = BytesHeaderParser().parsebytes(self._source[start:at] + b"\n")
        _truncate_headers(headers)
        if limit < end and (at == limit or _HEADER.match(self._source, at, end)):
            self.truncated = True  # there are more of them, and nobody knows where they end
            return headers, (end, end)
        blank = _BLANK.match(self._source, at, end)
        return headers, (at if blank is None else blank.end(), end)

    def _child_ranges(self, headers: Message, body: ByteRange) -> list[ByteRange]:
        boundary = headers.get_boundary()
        if headers.get_content_maintype() != "multipart" or not boundary:
            return []
        return list(
            self._ranges_between(*body, b"\n--" + boundary.encode("utf-8", "surrogateescape"))
        )

    def _ranges_between(self, start: int, end: int, boundary: bytes) -> Iterator[ByteRange]:
        """What stands between two bounds. The last may be missing, as in half a mail."""
        source, begin = self._source, -1
        at = source.find(boundary, max(start - 1, 0), end)  # a line has ended there, too
        while at >= 0 and self._boundaries_left:
            self._boundaries_left -= 1
            rest = _REST_OF_BOUNDARY.match(source, at + len(boundary), end)
            if rest is not None:
                if begin >= 0:
                    yield begin, max(begin, at - source.endswith(b"\r", begin, at))
                if rest[1]:
                    return
                begin = rest.end()
            at = source.find(boundary, at + len(boundary), end)
        self.truncated = self.truncated or at >= 0
        if begin >= 0:
            yield begin, end


def _truncate_headers(headers: Message) -> None:
    """To take a value apart takes the square of its length."""
    for name in _CONTENT_HEADERS:
        value = headers.get(name)
        if value is not None and len(str(value)) > _MAX_HEADER_VALUE_LENGTH:
            del headers[name]
            headers[name] = str(value)[:_MAX_HEADER_VALUE_LENGTH]


def _decode_base64(body: bytes) -> bytes:
    """As much as can be read: programs leave its end out, and half a mail has none."""
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        signs = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
        return binascii.a2b_base64(signs[: len(signs) // 4 * 4])
