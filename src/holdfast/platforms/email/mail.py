"""A mail, read: its text and its files, whatever its writer's program made of the form."""

import msgspec

from holdfast.platforms.email.headers import in_letters, words
from holdfast.platforms.email.page import text_of
from holdfast.platforms.email.parts import Division, Part

_MOST_TEXT = 300_000  # bytes of all its words: some times what is shown of a mail
_SPELT = 4  # bytes as they are sent for one of them, at the most
_CUT = (
    "\n\n[This mail is not read as a whole, for it has more text, parts or headers than mails that "
    "people write: tell its writer that some of it was left out]"
)
_SMALL_PICTURE = 4096  # bytes: a smaller one within a text is a dot that tells who reads, or a logo


class File(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # with what it quotes
    files: tuple[File, ...] = ()


def read_mail(source: bytes) -> Mail:
    """The plain text where there is one, else that of the HTML. No mail has a zero byte in it (RFC
    3501 4.3), and the library stumbles over one. Whatever somebody has sent, the work is bounded:
    what goes beyond is left out, and the text says so."""
    return _Reading().read(source.replace(b"\x00", b""))


class _Reading:
    """Owns what was found so far in one mail."""

    def __init__(self) -> None:
        self._plain: list[str] = []
        self._pages: list[str] = []
        self._files: list[File] = []
        self._left = _MOST_TEXT
        self._cut = False

    def read(self, source: bytes) -> Mail:
        division = Division(source)
        for number, part in enumerate(division.parts(), start=1):
            self._take(part, number)
        plain = any(map(str.strip, self._plain))
        text = "\n".join(self._plain) if plain else text_of(*self._pages)
        if division.cut or self._cut:
            text = text.rstrip() + _CUT
        return Mail(text=text, files=tuple(self._files))

    def _take(self, part: Part, number: int) -> None:
        if part.kind in ("text/plain", "text/html") and not _is_file(part):
            (self._plain if part.kind == "text/plain" else self._pages).append(self._letters(part))
            return
        data = part.data()
        if not _is_ornament(part, data):
            self._files.append(File(name=_name(part, number), data=data))

    def _letters(self, part: Part) -> str:
        sent = self._left * _SPELT
        data = part.data(sent)
        cut = len(part.body) > sent or len(data) > self._left
        data = data[: self._left]
        self._left -= len(data)
        self._cut = self._cut or cut
        text = in_letters(data, part.headers.get_content_charset(), whole=not cut)
        return text.replace("\r\n", "\n")


def _is_file(part: Part) -> bool:
    headers = part.headers
    return headers.get_content_disposition() == "attachment" or bool(headers.get_filename())


def _is_ornament(part: Part, data: bytes) -> bool:
    headers = part.headers
    inline = headers.get_content_disposition() != "attachment" and "Content-ID" in headers
    picture = headers.get_content_maintype() == "image"
    return inline and picture and len(data) < _SMALL_PICTURE


def _name(part: Part, number: int) -> str:
    if given := part.headers.get_filename():
        return words(given)
    if part.kind == "message/rfc822":
        return f"mail-{number}.eml"
    ending = part.headers.get_content_subtype().partition("+")[0]
    return f"part-{number}.{ending if ending.isalnum() else 'bin'}"
