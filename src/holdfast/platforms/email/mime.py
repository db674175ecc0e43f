"""Parses the bytes of a mail: headers, MIME parts, HTML as text, files.

The work is bounded for any input: what exceeds a limit is left out, and the text says so. MIME
parts are found by searching for their boundaries
(https://www.rfc-editor.org/rfc/rfc2046#section-5.1): the parser of the standard library checks
every line against all open boundaries, and takes half a minute for a few megabytes of lines in
fifty parts.
"""

import binascii
import codecs
import re
from collections.abc import Iterator
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.utils import getaddresses
from itertools import product

import msgspec

from holdfast.core.text.html import html_to_text

_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")  # longer ones are ignored
_ADDRESS = re.compile(r"[^@\s<>,;:\"()]+@[^@\s<>,;:\"()]+")

# Parsing names and encoded words takes quadratic time, and a sender may write megabytes of them.
_MAX_VALUE_LENGTH = 8_000  # characters
_MAX_LIST_LENGTH = 32_000
_MAX_CHARACTER_BYTES = 4  # of one character

# Not used in mails, and decoding a long text by them takes very long.
_DOMAIN_CODECS = frozenset({"idna", "punycode"})

MAX_PARTS = 200  # including multipart containers
_MAX_HEADER_BYTES = 128 * 1024  # of all parts together
_MAX_BOUNDARIES = 5000  # including text that only begins like one
_MAX_PART_DEPTH = 10  # nested multiparts
_MAX_HEADER_VALUE_LENGTH = 4096  # characters of a Content-* header
_HEADER = re.compile(rb"(?:[!-9;-~]*:|[ \t]|From )")
_HEADERS = re.compile(rb"(?:" + _HEADER.pattern + rb"[^\n]*(?:\n|\Z))*")
_BLANK = re.compile(rb"\r?\n")
_REST_OF_BOUNDARY = re.compile(rb"(--)?[ \t]*(?:\r?\n|\Z)")
_CONTENT_HEADERS = ("Content-Type", "Content-Disposition", "Content-Transfer-Encoding")

_MAX_HTML_LENGTH = 500_000  # characters: several times what the agent gets
_MAX_TAGS = 20_000  # more than in any real mail

_MAX_TEXT_BYTES = 300_000  # of all text parts: several times what the agent gets
_MAX_ENCODING_FACTOR = 4  # encoded bytes per decoded byte
_MAX_DECORATION_BYTES = 4096  # a smaller inline image is a tracking pixel or a logo
_TRUNCATED_NOTE = (
    "\n\n[This mail was not read completely, because it has more text, parts or headers "
    "than ordinary mails: tell its author that some of it was left out]"
)

ByteRange = tuple[int, int]


class NamedAddress(msgspec.Struct, frozen=True, kw_only=True):
    address: str  # lowercase: the user id
    name: str = ""


def header_values(message: Message, name: str) -> list[str]:
    """The values of a header, not decoded, each on one line."""
    return [" ".join(str(value).split()) for value in message.get_all(name, [])]


def first_header(message: Message, name: str) -> str:
    return next(iter(header_values(message, name)), "")


def decoded_header(message: Message, name: str) -> str:
    return next((decode_words(value) for value in message.get_all(name, [])), "")


def decode_words(value: str | Header) -> str:
    """A value with its encoded words decoded as far as possible."""
    value = value if isinstance(value, Header) else value[:_MAX_VALUE_LENGTH]
    try:
        pieces = decode_header(value)
    except (HeaderParseError, ValueError):
        return " ".join(str(value).split())
    text = "".join(
        piece if isinstance(piece, str) else decode_text(piece, charset)
        for piece, charset in pieces
    )
    return " ".join(text.encode("utf-8", "replace").decode().split())


def decode_text(data: bytes, charset: str | None, *, is_whole: bool = True) -> str:
    """By the named charset, if it exists; else as UTF-8 or Latin-1. Lone surrogates are replaced:
    some charsets can encode them, but nothing can store them. Without `is_whole` the data was
    truncated, and the last character may be incomplete."""
    for name, dropped in product(
        (charset or "utf-8", "utf-8"), range(1 if is_whole else _MAX_CHARACTER_BYTES)
    ):
        try:
            if codecs.lookup(name).name not in _DOMAIN_CODECS:
                return data[: len(data) - dropped].decode(name).encode("utf-8", "replace").decode()
        except (LookupError, ValueError):  # unknown charset, or another one
            continue
    return data.decode("latin-1")


def header_addresses(message: Message, *names: str) -> tuple[NamedAddress, ...]:
    """All valid addresses in these headers. Empty if a header is longer than any program writes: a
    truncated part of it could have another meaning."""
    return tuple(each for name in names for each in _parse_addresses(header_values(message, name)))


def _parse_addresses(values: list[str]) -> list[NamedAddress]:
    if sum(map(len, values)) > _MAX_LIST_LENGTH:
        return []
    return [
        NamedAddress(address=address.lower(), name=decode_words(name))
        for name, address in getaddresses(values)
        if _ADDRESS.fullmatch(address)
    ]


def message_ids(message: Message, name: str) -> tuple[str, ...]:
    """The message ids in a header, with their brackets."""
    return tuple(_MESSAGE_ID.findall(" ".join(header_values(message, name))))


class MimePart(msgspec.Struct, frozen=True, kw_only=True):
    """A part with content, not a container of other parts."""

    headers: Message
    body: bytes  # encoded

    @property
    def content_type(self) -> str:
        return self.headers.get_content_type()

    def decode(self, max_bytes: int | None = None) -> bytes:
        """The content, from at most `max_bytes` of the encoded body."""
        body = self.body[:max_bytes]
        match str(self.headers.get("Content-Transfer-Encoding", "")).strip().lower():
            case "base64":
                return _decode_base64(body)
            case "quoted-printable":
                return binascii.a2b_qp(body)
        return body


class MimeSplitter:
    """Splits one mail into its parts. Owns the remaining limits. `truncated` says that a limit was
    reached and something was left out. The work is one pass over all bytes for every depth."""

    def __init__(self, source: bytes) -> None:
        self.truncated = False
        self._source = source
        self._parts_left = MAX_PARTS
        self._header_bytes_left = _MAX_HEADER_BYTES
        self._boundaries_left = _MAX_BOUNDARIES

    def parts(self) -> Iterator[MimePart]:
        """In their order. An attached mail is one part."""
        pending = [((0, len(self._source)), 0)]
        while pending and self._parts_left:
            self._parts_left -= 1
            whole, depth = pending.pop()
            headers, body = self._read_headers(*whole)
            found = self._child_ranges(headers, body)
            if not found:
                yield MimePart(headers=headers, body=self._source[slice(*body)])
            elif depth < _MAX_PART_DEPTH:
                pending.extend((each, depth + 1) for each in reversed(found))
            else:
                self.truncated = True
        self.truncated = self.truncated or bool(pending)

    def _read_headers(self, start: int, end: int) -> tuple[Message, ByteRange]:
        """The headers, and the range of the body. Any line that is no header ends the headers."""
        limit = min(end, start + self._header_bytes_left)
        found = _HEADERS.match(self._source, start, limit)
        at = start if found is None else found.end()
        self._header_bytes_left -= at - start
        headers = BytesHeaderParser().parsebytes(self._source[start:at] + b"\n")
        _truncate_headers(headers)
        if limit < end and (at == limit or _HEADER.match(self._source, at, end)):
            self.truncated = True  # there are more headers, and their end is unknown
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
        """The ranges between boundaries. In a truncated mail the last one may be missing."""
        source, begin = self._source, -1
        at = source.find(boundary, max(start - 1, 0), end)  # the body may begin with a boundary
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
    """Parsing a value takes quadratic time."""
    for name in _CONTENT_HEADERS:
        value = headers.get(name)
        if value is not None and len(str(value)) > _MAX_HEADER_VALUE_LENGTH:
            del headers[name]
            headers[name] = str(value)[:_MAX_HEADER_VALUE_LENGTH]


def _decode_base64(body: bytes) -> bytes:
    """As much as can be decoded: padding may be missing, or the mail truncated."""
    try:
        return binascii.a2b_base64(body)
    except binascii.Error:
        characters = re.sub(rb"[^A-Za-z0-9+/]", b"", body)
        return binascii.a2b_base64(characters[: len(characters) // 4 * 4])


class MailFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


class ParsedMail(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # including quotes
    files: tuple[MailFile, ...] = ()


def parse_mail(source: bytes) -> ParsedMail:
    """The plain text if there is one, else the text of the HTML. Removes zero bytes: a mail must
    not have any (RFC 3501 4.3), and the library fails on them."""
    return _MailParser().parse(source.replace(b"\x00", b""))


class _MailParser:
    """Owns the texts and files found so far in one mail."""

    def __init__(self) -> None:
        self._plain_texts: list[str] = []
        self._html_pages: list[str] = []
        self._files: list[MailFile] = []
        self._bytes_left = _MAX_TEXT_BYTES
        self._truncated = False

    def parse(self, source: bytes) -> ParsedMail:
        splitter = MimeSplitter(source)
        for number, part in enumerate(splitter.parts(), start=1):
            self._add_part(part, number)
        has_plain = any(map(str.strip, self._plain_texts))
        text = "\n".join(self._plain_texts) if has_plain else self._html_text()
        if splitter.truncated or self._truncated:
            text = text.rstrip() + _TRUNCATED_NOTE
        return ParsedMail(text=text, files=tuple(self._files))

    def _html_text(self) -> str:
        pages = [page[:_MAX_HTML_LENGTH] for page in self._html_pages]
        return html_to_text(*pages, with_title=False, max_tags=_MAX_TAGS)

    def _add_part(self, part: MimePart, number: int) -> None:
        if part.content_type in ("text/plain", "text/html") and not _is_attachment(part):
            (self._plain_texts if part.content_type == "text/plain" else self._html_pages).append(
                self._decode_part(part)
            )
            return
        data = part.decode()
        if not _is_decoration(part, data):
            self._files.append(MailFile(name=_file_name(part, number), data=data))

    def _decode_part(self, part: MimePart) -> str:
        encoded_limit = self._bytes_left * _MAX_ENCODING_FACTOR
        data = part.decode(encoded_limit)
        truncated = len(part.body) > encoded_limit or len(data) > self._bytes_left
        data = data[: self._bytes_left]
        self._bytes_left -= len(data)
        self._truncated = self._truncated or truncated
        text = decode_text(data, part.headers.get_content_charset(), is_whole=not truncated)
        return text.replace("\r\n", "\n")


def _is_attachment(part: MimePart) -> bool:
    headers = part.headers
    return headers.get_content_disposition() == "attachment" or bool(headers.get_filename())


def _is_decoration(part: MimePart, data: bytes) -> bool:
    headers = part.headers
    inline = headers.get_content_disposition() != "attachment" and "Content-ID" in headers
    picture = headers.get_content_maintype() == "image"
    return inline and picture and len(data) < _MAX_DECORATION_BYTES


def _file_name(part: MimePart, number: int) -> str:
    if given := part.headers.get_filename():
        return decode_words(given)
    if part.content_type == "message/rfc822":
        return f"mail-{number}.eml"
    ending = part.headers.get_content_subtype().partition("+")[0]
    return f"part-{number}.{ending if ending.isalnum() else 'bin'}"
