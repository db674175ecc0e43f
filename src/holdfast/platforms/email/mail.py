"""A mail, read: its text and its files, whatever its writer's program made of the form."""

import msgspec

from holdfast.platforms.email.headers import decode_text, decode_words
from holdfast.platforms.email.page import html_to_text
from holdfast.platforms.email.parts import MimePart, MimeSplitter

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
