"""A mail, read: its text and its files, whatever its writer's program made of the form."""

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message

import msgspec

from holdfast.platforms.email.headers import in_letters, words
from holdfast.platforms.email.page import text_of

_MOST_PARTS = 200
# The library asks of every line whether it is the end of one of the parts that are open, so a mail
# of nothing but lines and parts would keep it busy for hours. No program writes such.
_MOST_LINES, _USUAL_LINE = 200_000, 50  # and one more for so many bytes: files have longer lines
_MOST_BOUNDARIES = 50
_BOUNDARY = re.compile(rb"boundary\s*=", re.IGNORECASE)
_BEGINNING = 64 * 1024  # bytes of it that are read
_ODD = "\n\n[This mail has too many lines or parts to be read: this is its beginning]"
_SMALL_PICTURE = 4096  # bytes: a smaller one within a text is a dot that tells who reads, or a logo


class File(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    data: bytes


class Mail(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # with what it quotes
    files: tuple[File, ...] = ()


def read_mail(source: bytes) -> Mail:
    """The plain text where there is one, else that of the HTML. No mail has a zero byte in it (RFC
    3501 4.3), and the library stumbles over one."""
    source = source.replace(b"\x00", b"")
    if _is_odd(source):
        return Mail(text=_read(source[:_BEGINNING]).text.rstrip() + _ODD)
    return _read(source)


def _is_odd(source: bytes) -> bool:
    lines = source.count(b"\n")
    boundaries = sum(1 for _ in _BOUNDARY.finditer(source))
    return lines > _MOST_LINES + len(source) // _USUAL_LINE or boundaries > _MOST_BOUNDARIES


def _read(source: bytes) -> Mail:
    plain: list[str] = []
    pages: list[str] = []
    files: list[File] = []
    for number, part in enumerate(_parts(message_from_bytes(source)), start=1):
        kind = part.get_content_type()
        if kind in ("text/plain", "text/html") and not _is_file(part):
            (plain if kind == "text/plain" else pages).append(_letters(part))
        elif not _is_ornament(part):
            files.append(File(name=_name(part, number), data=_bytes(part)))
    text = "\n".join(plain) if any(map(str.strip, plain)) else "\n".join(map(text_of, pages))
    return Mail(text=text, files=tuple(files))


def _parts(message: Message) -> Iterator[Message]:
    """Those that hold something, in order. A mail within the mail is a file of it."""
    waiting, seen = [message], 0
    while waiting and seen < _MOST_PARTS:
        part = waiting.pop(0)
        seen += 1
        if part.get_content_maintype() == "multipart" and part.is_multipart():
            waiting[:0] = _inside(part)
        else:
            yield part


def _inside(part: Message) -> list[Message]:
    inside = part.get_payload()
    return (
        [each for each in inside if isinstance(each, Message)] if isinstance(inside, list) else []
    )


def _is_file(part: Message) -> bool:
    return part.get_content_disposition() == "attachment" or bool(part.get_filename())


def _is_ornament(part: Message) -> bool:
    inline = part.get_content_disposition() != "attachment" and "Content-ID" in part
    picture = part.get_content_maintype() == "image"
    return inline and picture and len(_bytes(part)) < _SMALL_PICTURE


def _letters(part: Message) -> str:
    charset = part.get_content_charset()
    return in_letters(_bytes(part), charset).replace("\r\n", "\n").replace("\x00", "")


def _bytes(part: Message) -> bytes:
    if part.is_multipart():  # a mail within the mail
        return b"\n".join(each.as_bytes() for each in _inside(part))
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""


def _name(part: Message, number: int) -> str:
    if given := part.get_filename():
        return words(given)
    if part.get_content_type() == "message/rfc822":
        return f"mail-{number}.eml"
    ending = part.get_content_subtype().partition("+")[0]
    return f"part-{number}.{ending if ending.isalnum() else 'bin'}"
