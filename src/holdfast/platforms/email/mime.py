"""Parses the bytes of a mail: headers, MIME parts, HTML as text, files.

The work is bounded whatever somebody has sent: what goes beyond is left out, and the text says so.
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
from html.parser import HTMLParser
from itertools import product

import msgspec

from holdfast.core.text.html import close_html_tags

# MERGED holdfast.platforms.email.headers: Headers of a mail in words: decoded, unfolded, whatever its writer's program made of them.
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,250}>")  # one that is longer is no help to anybody
_ADDRESS = re.compile(r"[^@\s<>,;:\"()]+@[^@\s<>,;:\"()]+")

# To take names and encoded words apart takes the square of their length, and anybody may write
# megabytes of them.
_MAX_VALUE_LENGTH = 8_000  # characters
_MAX_LIST_LENGTH = 32_000
_MAX_CHARACTER_BYTES = 4  # bytes of one character

# No mail is written in these, and to read a long text by them takes for ever.
_DOMAIN_CODECS = frozenset({"idna", "punycode"})


class NamedAddress(msgspec.Struct, frozen=True, kw_only=True):
    address: str  # in small letters: by it people are known
    name: str = ""


def header_values(message: Message, name: str) -> list[str]:
    """The values of a header as they came, on one line each."""
    return [" ".join(str(value).split()) for value in message.get_all(name, [])]


def first_header(message: Message, name: str) -> str:
    return next(iter(header_values(message, name)), "")


def decoded_header(message: Message, name: str) -> str:
    return next((decode_words(value) for value in message.get_all(name, [])), "")


def decode_words(value: str | Header) -> str:
    """A value with its encoded words read, as well as they can be."""
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
    """By the charset that it names, if there is such; else by the two that it mostly is. Whole
    characters only: some charsets can spell halves, which nothing can keep. Not `whole`: it was cut
    somewhere, and the last character may be in half."""
    for name, less in product(
        (charset or "utf-8", "utf-8"), range(1 if is_whole else _MAX_CHARACTER_BYTES)
    ):
        try:
            if codecs.lookup(name).name not in _DOMAIN_CODECS:
                return data[: len(data) - less].decode(name).encode("utf-8", "replace").decode()
        except (LookupError, ValueError):  # no such charset, or not that
            continue
    return data.decode("latin-1")


def header_addresses(message: Message, *names: str) -> tuple[NamedAddress, ...]:
    """Everybody who is named in these headers by an address that can be written to; nobody by one
    that is longer than any program writes, of which a part would say something else."""
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
    """The names of mails in a header, with their brackets."""
    return tuple(_MESSAGE_ID.findall(" ".join(header_values(message, name))))


# MERGED holdfast.platforms.email.parts: The parts of a mail, found in its bytes by the lines that bound them.
#
# https://www.rfc-editor.org/rfc/rfc2046#section-5.1. The library that reads mails asks of every line
# whether it ends one of the parts that are open, so that a few megabytes of lines in fifty parts keep
# it busy for half a minute. Here the bounds are looked for, and no line is looked at: the work is
# that of so many parts, and of all bytes once for every depth.
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


# MERGED holdfast.platforms.email.page: A page of HTML as the text that a reader of it would see.
_HIDDEN_TAGS = frozenset({"head", "script", "style", "title", "template", "noscript"})
_LINE_TAGS = frozenset({"br", "div", "tr", "li", "dt", "dd", "hr", "table", "section", "article"})
_PARAGRAPH_TAGS = frozenset(
    {"p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "pre", "blockquote"}
)
_VOID_TAGS = frozenset({"br", "hr", "img", "meta", "link", "input", "col", "wbr"})
_MAX_HTML_LENGTH = 500_000  # characters that are read: some times what is shown of a mail
_MAX_TAGS = 20_000  # each is some work, and nobody has written so many
_MAX_QUOTE_DEPTH = 20  # quotes in quotes that are told apart


def html_to_text(*pages: str) -> str:
    """One below the other. Never raises, whatever they are. Quotes are marked as in plain mail, by
    "> "."""
    reader = _HtmlText()
    try:
        for page in pages:
            reader.read_page(close_html_tags(page[:_MAX_HTML_LENGTH]))
    except _TooManyTags:
        return f"{reader.text()}\n\n[The page goes on: it has more than {_MAX_TAGS} tags]"
    return reader.text()


class _TooManyTags(Exception):
    """There are too many tags."""


class _HtmlText(HTMLParser):
    """Owns the lines so far, each with how deep in quotes it stands."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._lines: list[tuple[int, str]] = []
        self._line = ""
        self._quotes = 0
        self._hidden_tags: list[str] = []
        self._preformatted = 0
        self._link = ""
        self._link_start = 0
        self._tags = 0

    def read_page(self, page: str) -> None:
        """What the one before has left open is not open in this one."""
        self.feed(page)
        self.close()
        self._end_line()
        self.reset()
        self._quotes = self._preformatted = 0
        self._hidden_tags.clear()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._count()
        if tag in _HIDDEN_TAGS:
            self._hidden_tags.append(tag)
        if self._hidden_tags:
            return
        if tag in _LINE_TAGS or tag in _PARAGRAPH_TAGS:
            self._end_line(blank=tag in _PARAGRAPH_TAGS, always=tag == "br")
        self._quotes += tag == "blockquote"
        self._preformatted += tag == "pre"
        if tag == "li":
            self._line = "- "
        elif tag in ("td", "th") and self._line.strip():
            self._line += "\t"
        elif tag == "img":
            self._line += dict(attrs).get("alt") or ""
        elif tag == "a":
            self._link, self._link_start = dict(attrs).get("href") or "", len(self._line)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden_tags:
            if tag in self._hidden_tags:
                del self._hidden_tags[self._hidden_tags.index(tag) :]
            return
        if tag == "a":
            self._end_link()
        if (tag in _LINE_TAGS or tag in _PARAGRAPH_TAGS) and tag not in _VOID_TAGS:
            self._end_line(blank=tag in _PARAGRAPH_TAGS)
        self._quotes = max(0, self._quotes - (tag == "blockquote"))
        self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        if self._hidden_tags:
            return
        if self._preformatted:
            first, *rest = data.split("\n")
            self._line += first
            for line in rest:
                self._end_line(always=True)
                self._line = line
            return
        said = re.sub(r"[ \t\r\n\f]+", " ", data)
        self._line += said.lstrip() if not self._line or self._line.endswith((" ", "\t")) else said

    def _count(self) -> None:
        self._tags += 1
        if self._tags > _MAX_TAGS:
            raise _TooManyTags

    def text(self) -> str:
        self._end_line()
        while self._lines and not self._lines[-1][1]:
            self._lines.pop()
        lines = [f"{_quote_prefix(depth)}{line}" for depth, line in self._lines]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in lines)).strip("\n")

    def _end_line(self, *, blank: bool = False, always: bool = False) -> None:
        """A line that has nothing on it is not one, unless somebody made it; a paragraph has a
        blank line around it."""
        line = self._line.rstrip().replace("\xa0", " ")
        if line or always:
            self._lines.append((self._quotes, line))
        if blank and self._lines and self._lines[-1][1]:
            self._lines.append((self._quotes, ""))
        self._line, self._link = "", ""

    def _end_link(self) -> None:
        """Where it leads, unless it says so itself."""
        said = self._line[self._link_start :].strip()
        link, self._link = self._link, ""
        if link.startswith(("http://", "https://")) and link.rstrip("/") not in (said, said + "/"):
            self._line += f" ({link})" if said else link


def _quote_prefix(depth: int) -> str:
    return f"{'>' * min(depth, _MAX_QUOTE_DEPTH)} " if depth else ""


# MERGED holdfast.platforms.email.mail: A mail, read: its text and its files, whatever its writer's program made of the form.
_MAX_TEXT_BYTES = 300_000  # bytes of all its words: some times what is shown of a mail
_MAX_ENCODING_FACTOR = 4  # bytes as they are sent for one of them, at the most
_TRUNCATED_NOTE = (
    "\n\n[This mail is not read as a whole, for it has more text, parts or headers than mails that "
    "people write: tell its writer that some of it was left out]"
)
_MAX_DECORATION_BYTES = (
    4096  # bytes: a smaller one within a text is a dot that tells who reads, or a logo
)


class MailFile(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


class ParsedMail(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # with what it quotes
    files: tuple[MailFile, ...] = ()


def parse_mail(source: bytes) -> ParsedMail:
    """The plain text where there is one, else that of the HTML. No mail has a zero byte in it (RFC
    3501 4.3), and the library stumbles over one. Whatever somebody has sent, the work is bounded:
    what goes beyond is left out, and the text says so."""
    return _MailParser().parse(source.replace(b"\x00", b""))


class _MailParser:
    """Owns what was found so far in one mail."""

    def __init__(self) -> None:
        self._plain_texts: list[str] = []
        self._html_pages: list[str] = []
        self._files: list[MailFile] = []
        self._bytes_left = _MAX_TEXT_BYTES
        self._truncated = False

    def parse(self, source: bytes) -> ParsedMail:
        division = MimeSplitter(source)
        for number, part in enumerate(division.parts(), start=1):
            self._add_part(part, number)
        plain = any(map(str.strip, self._plain_texts))
        text = "\n".join(self._plain_texts) if plain else html_to_text(*self._html_pages)
        if division.truncated or self._truncated:
            text = text.rstrip() + _TRUNCATED_NOTE
        return ParsedMail(text=text, files=tuple(self._files))

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
        sent = self._bytes_left * _MAX_ENCODING_FACTOR
        data = part.decode(sent)
        cut = len(part.body) > sent or len(data) > self._bytes_left
        data = data[: self._bytes_left]
        self._bytes_left -= len(data)
        self._truncated = self._truncated or cut
        text = decode_text(data, part.headers.get_content_charset(), is_whole=not cut)
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
