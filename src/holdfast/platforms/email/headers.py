"""Headers of a mail in words: decoded, unfolded, whatever its writer's program made of them."""

import codecs
import re
from email.errors import HeaderParseError
from email.header import Header, decode_header
from email.message import Message
from email.utils import getaddresses
from itertools import product

import msgspec

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
