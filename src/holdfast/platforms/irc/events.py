"""IRC messages: parsing and serializing lines, formatting codes, comparing nicks and channel names.

https://modern.ircdocs.horse/#message-format, with the tags of
https://ircv3.net/specs/extensions/message-tags. Formatting:
https://modern.ircdocs.horse/formatting and https://modern.ircdocs.horse/ctcp.
"""

import logging
import re
import string
from collections.abc import Iterable, Mapping

import msgspec

log = logging.getLogger(__name__)

_LINE_ENDS = frozenset("\r\n\x00")
_ESCAPES = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_UNESCAPED = {character: f"\\{code}" for code, character in _ESCAPES.items()}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_NO_TAGS: Mapping[str, str] = {}
_FORMAT_CODES = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?"  # foreground colour, and optionally background
    r"|\x04(?:[0-9A-Fa-f]{6}(?:,[0-9A-Fa-f]{6})?)?"  # the same in hexadecimal
    r"|[\x02\x0f\x11\x16\x1d\x1e\x1f]"  # bold, reset, monospace, reverse, italic, strike, underline
)
_CTCP_DELIMITER = "\x01"
# https://modern.ircdocs.horse/#casemapping-parameter
_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_RFC1459 = str.maketrans(f"{string.ascii_uppercase}[]\\~", f"{string.ascii_lowercase}{{}}|^")
_STRICT = str.maketrans(f"{string.ascii_uppercase}[]\\", f"{string.ascii_lowercase}{{}}|")
_MAPPINGS = {"ascii": _ASCII, "rfc1459": _RFC1459, "rfc1459-strict": _STRICT}
_NICK_CHARACTERS = r"A-Za-z0-9\[\]\\`_^{|}\-"
_TARGET = re.compile(r"[^\s,:\x00-\x1f][^\s,\x00-\x1f]*")


class IrcMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One message: tags, source, command and parameters."""

    command: str
    params: tuple[str, ...] = ()
    source: str = ""  # nick!user@host, or the name of a server
    tags: Mapping[str, str] = {}

    @property
    def nick(self) -> str:
        return self.source.partition("!")[0]

    @property
    def trailing(self) -> str:
        """The last parameter, usually a sentence."""
        return self.params[-1] if self.params else ""

    def param(self, number: int) -> str:
        """ "" if the message has fewer parameters: servers leave some out."""
        return self.params[number] if number < len(self.params) else ""


def parse_line(raw: bytes) -> IrcMessage | None:
    """None if the line is empty."""
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
    """The last parameter may contain spaces. Raises ValueError if any part contains a line end."""
    for each in (command, *params):
        if not _LINE_ENDS.isdisjoint(each):  # never an assertion: those can be switched off
            raise ValueError("a part of an IRC line contains a line end")
    prefix = f"@{';'.join(f'{key}={_escape(value)}' for key, value in tags.items())} "
    words = [command, *params[:-1], *(f":{last}" for last in params[-1:])]
    return f"{prefix if tags else ''}{' '.join(words)}\r\n".encode()


def _decode(raw: bytes) -> str:
    """Falls back to Latin-1: some clients still do not write UTF-8, and most of those use it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _parse_tags(text: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in text.split(";") if each)
    return {key: _unescape(value) for key, _, value in pairs}


def _unescape(value: str) -> str:
    """A backslash before any other character, or at the end, is dropped."""
    return _ESCAPE.sub(lambda found: _ESCAPES.get(found[1], found[1]), value)


def _escape(value: str) -> str:
    return "".join(_UNESCAPED.get(each, each) for each in value)


def strip_formatting(text: str, *, nick: str) -> str | None:
    """The text without formatting codes, and `/me` as "* nick text". None for any other CTCP
    message: that is a request between two clients, not a text."""
    if not text.startswith(_CTCP_DELIMITER):
        return _FORMAT_CODES.sub("", text)
    verb, _, rest = text.strip(_CTCP_DELIMITER).partition(" ")
    return f"* {nick} {_FORMAT_CODES.sub('', rest)}" if verb.upper() == "ACTION" else None


class IrcNames:
    """Compares nicks and channel names as one server does, by its `RPL_ISUPPORT`."""

    def __init__(self, features: Mapping[str, str]) -> None:
        self._mapping = _MAPPINGS.get(features.get("CASEMAPPING", "rfc1459").lower(), _ASCII)
        self._channels = tuple(features.get("CHANTYPES", "#&"))
        self._status = features.get("STATUSMSG", "")

    def fold(self, name: str) -> str:
        """Names that fold to the same text are the same name."""
        return name.translate(self._mapping)

    def is_same(self, one: str, other: str) -> bool:
        return self.fold(one) == self.fold(other)

    def is_channel(self, target: str) -> bool:
        return target.startswith(self._channels)

    def is_status_message(self, target: str) -> bool:
        """Whether it goes only to members of a channel with some status: `@#channel`."""
        channel = target.lstrip(self._status) if self._status else target
        return channel != target and self.is_channel(channel)

    def mentions(self, text: str, nick: str) -> bool:
        """Whether the nick occurs in the text as a word."""
        name = re.escape(self.fold(nick))
        return bool(
            re.search(rf"(?<![{_NICK_CHARACTERS}]){name}(?![{_NICK_CHARACTERS}])", self.fold(text))
        )

    def strip_nick(self, text: str, nick: str) -> str:
        """The text without a leading "nick: ", "nick, " or "@nick". A nick that is only the first
        word of a sentence stays, unless a command follows it."""
        name = re.escape(self.fold(nick))
        prefix = re.match(
            rf"\s*(?:@{name}(?![{_NICK_CHARACTERS}])|{name}(?=\s*[:,]|\s+[/!]))\s*[:,]?\s*",
            self.fold(text),
        )
        return text if prefix is None else text[prefix.end() :]


def is_valid_target(name: str) -> bool:
    """Whether it is exactly one target: without spaces, commas and line ends."""
    return bool(_TARGET.fullmatch(name))


class ChannelIds:
    """Maps channel names to the chat ids that are used here. Owns the names of the channels in the
    configuration, folded as one server compares them
    (https://modern.ircdocs.horse/#casemapping-parameter): only the server says whether `[` and `{`
    are the same character. The id of any other channel is its folded name."""

    def __init__(self, names: IrcNames, chats: Iterable[str]) -> None:
        self._names = names
        self._configured: dict[str, str] = {}
        for chat in filter(names.is_channel, chats):
            known = self._configured.setdefault(names.fold(chat), chat)
            if known != chat:
                log.warning(
                    "The server treats %s and %s as the same channel: the settings of the "
                    "second are ignored",
                    known,
                    chat,
                    extra={"action": "chat_configured_twice"},
                )

    def normalise(self, name: str) -> str:
        """The chat id of a channel. The id of a user is returned unchanged."""
        if not self._names.is_channel(name):
            return name
        folded = self._names.fold(name)
        return self._configured.get(folded, folded)
