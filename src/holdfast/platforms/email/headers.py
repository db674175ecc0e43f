"""Headers of a mail in words: decoded, unfolded, whatever its writer's program made of them."""

import codecs
import re
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message
from email.utils import getaddresses

import msgspec

_ID = re.compile(r"<[^<>\s]{1,250}>")  # one that is longer is no help to anybody
_ADDRESS = re.compile(r"[^@\s<>,;:\"()]+@[^@\s<>,;:\"()]+")

# No mail is written in these, and to read a long text by them takes for ever.
_OF_DOMAINS = frozenset({"idna", "punycode"})


class Person(msgspec.Struct, frozen=True, kw_only=True):
    address: str  # in small letters: by it people are known
    name: str = ""


def every(message: Message, name: str) -> list[str]:
    """The values of a header as they came, on one line each."""
    return [" ".join(str(value).split()) for value in message.get_all(name, [])]


def first(message: Message, name: str) -> str:
    return next(iter(every(message, name)), "")


def decoded(message: Message, name: str) -> str:
    return next((words(value) for value in message.get_all(name, [])), "")


def words(value: str | Header) -> str:
    """A value with its encoded words read, as well as they can be."""
    try:
        pieces = decode_header(value)
    except (HeaderParseError, ValueError):
        return " ".join(str(value).split())
    text = "".join(
        piece if isinstance(piece, str) else in_letters(piece, charset) for piece, charset in pieces
    )
    return " ".join(text.encode("utf-8", "replace").decode().split())


def in_letters(data: bytes, charset: str | None) -> str:
    """By the charset that it names, if there is such; else by the two that it mostly is. Whole
    characters only: some charsets can spell halves, which nothing can keep."""
    for name in (charset or "utf-8", "utf-8"):
        try:
            if codecs.lookup(name).name not in _OF_DOMAINS:
                return data.decode(name).encode("utf-8", "replace").decode()
        except (LookupError, ValueError):  # no such charset, or not that
            continue
    return data.decode("latin-1")


def people(message: Message, *names: str) -> tuple[Person, ...]:
    """Everybody who is named in these headers by an address that can be written to."""
    values = [value for name in names for value in every(message, name)]
    return tuple(
        Person(address=address.lower(), name=words(name))
        for name, address in getaddresses(values)
        if _ADDRESS.fullmatch(address)
    )


def ids(message: Message, name: str) -> tuple[str, ...]:
    """The names of mails in a header, with their brackets."""
    return tuple(_ID.findall(" ".join(every(message, name))))
