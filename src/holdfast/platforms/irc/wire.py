"""The wire: one line of IRC as words, and words as one line.

https://modern.ircdocs.horse/#message-format, with the tags of
https://ircv3.net/specs/extensions/message-tags.
"""

import re
from collections.abc import Mapping

import msgspec

_LINE_ENDS = frozenset("\r\n\x00")
_ESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_UNESCAPED = {held: f"\\{sign}" for sign, held in _ESCAPES.items()}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_NO_TAGS: Mapping[str, str] = {}


class IrcMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says: whose words they are, what it is about, and with what."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""  # nick!user@host, or the name of a server
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    @property
    def trailing(self) -> str:
        """Of its words: a sentence, as a rule."""
        return self.params[-1] if self.params else ""

    def param(self, number: int) -> str:
        """Servers leave some out."""
        return self.params[number] if number < len(self.params) else ""


def parse_line(raw: bytes) -> IrcMessage | None:
    """None: it says nothing."""
    rest = _decode(raw.rstrip(b"\r\n"))
    tags: Mapping[str, str] = _NO_TAGS
    source = ""
    if rest.startswith("@"):
        written_tags, _, rest = rest[1:].partition(" ")
        tags = _parse_tags(written_tags)
    rest = rest.lstrip(" ")
    if rest.startswith(":"):
        source, _, rest = rest[1:].partition(" ")
    words, colon, trailing = f" {rest}".partition(" :")
    verb, *params = words.split() or [""]
    if not verb:
        return None
    if colon:
        params.append(trailing)
    return IrcMessage(command=verb.upper(), params=tuple(params), source=source, tags=tags)


def format_line(command: str, *params: str, tags: Mapping[str, str] = _NO_TAGS) -> bytes:
    """The last parameter may have spaces in it. Nothing in any of them can end the line."""
    for each in (command, *params):
        if not _LINE_ENDS.isdisjoint(each):  # never an assertion: those can be switched off
            raise ValueError("a line of IRC ends where it is written, and nowhere else")
    ahead = f"@{';'.join(f'{key}={_escape(value)}' for key, value in tags.items())} "
    words = [command, *params[:-1], *(f":{last}" for last in params[-1:])]
    return f"{ahead if tags else ''}{' '.join(words)}\r\n".encode()


def _decode(raw: bytes) -> str:
    """Some clients still write in the alphabet of their country; most of those in this one."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _parse_tags(text: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in text.split(";") if each)
    return {key: _unescape(value) for key, _, value in pairs}


def _unescape(value: str) -> str:
    """A backslash before any other sign, or at the end, is dropped."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), value)


def _escape(value: str) -> str:
    return "".join(_UNESCAPED.get(sign, sign) for sign in value)
