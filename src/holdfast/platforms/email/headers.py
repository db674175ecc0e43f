"""Headers of a mail in words: decoded, unfolded, whatever its writer's program made of them."""

import codecs
import re
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message
from email.utils import getaddresses
from itertools import product

import msgspec

_ID = re.compile(r"<[^<>\s]{1,250}>")  # one that is longer is no help to anybody
_ADDRESS = re.compile(r"[^@\s<>,;:\"()]+@[^@\s<>,;:\"()]+")

# To take names and encoded words apart takes the square of their length, and anybody may write
# megabytes of them.
_LONGEST_WORDS = 8_000  # characters
_LONGEST_LIST = 32_000
_LONGEST_SIGN = 4  # bytes of one character

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
    value = value if isinstance(value, Header) else value[:_LONGEST_WORDS]
    try:
        pieces = decode_header(value)
    except (HeaderParseError, ValueError):
        return " ".join(str(value).split())
    text = "".join(
        piece if isinstance(piece, str) else in_letters(piece, charset) for piece, charset in pieces
    )
    return " ".join(text.encode("utf-8", "replace").decode().split())


def in_letters(data: bytes, charset: str | None, *, whole: bool = True) -> str:
    """By the charset that it names, if there is such; else by the two that it mostly is. Whole
    characters only: some charsets can spell halves, which nothing can keep. Not `whole`: it was cut
    somewhere, and the last character may be in half."""
    for name, less in product((charset or "utf-8", "utf-8"), range(1 if whole else _LONGEST_SIGN)):
        try:
            if codecs.lookup(name).name not in _OF_DOMAINS:
                return data[: len(data) - less].decode(name).encode("utf-8", "replace").decode()
        except (LookupError, ValueError):  # no such charset, or not that
            continue
    return data.decode("latin-1")


def people(message: Message, *names: str) -> tuple[Person, ...]:
    """Everybody who is named in these headers by an address that can be written to; nobody by one
    that is longer than any program writes, of which a part would say something else."""
    return tuple(each for name in names for each in _named(every(message, name)))


def _named(values: list[str]) -> list[Person]:
    if sum(map(len, values)) > _LONGEST_LIST:
        return []
    return [
        Person(address=address.lower(), name=words(name))
        for name, address in getaddresses(values)
        if _ADDRESS.fullmatch(address)
    ]


def ids(message: Message, name: str) -> tuple[str, ...]:
    """The names of mails in a header, with their brackets."""
    return tuple(_ID.findall(" ".join(every(message, name))))
