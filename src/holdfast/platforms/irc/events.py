"""IRC messages as they are parsed and serialized, formatting codes, and the comparison of nicks and channel names.

https://modern.ircdocs.horse/#message-format, with the tags of https://ircv3.net/specs/extensions/message-tags.
"""

import logging
import re
import string
from collections.abc import Iterable, Mapping

import msgspec

log = logging.getLogger(__name__)


# MERGED holdfast.platforms.irc.wire: The wire: one line of IRC as words, and words as one line.
#
# https://modern.ircdocs.horse/#message-format, with the tags of
# https://ircv3.net/specs/extensions/message-tags.
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


# MERGED holdfast.platforms.irc.formatting: Formatting: what people write, without the codes that colour it, and their /me as words.
#
# https://modern.ircdocs.horse/formatting and https://modern.ircdocs.horse/ctcp.
_FORMAT_CODES = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?"  # a colour, and one behind it
    r"|\x04(?:[0-9A-Fa-f]{6}(?:,[0-9A-Fa-f]{6})?)?"  # the same in hexadecimal
    r"|[\x02\x0f\x11\x16\x1d\x1e\x1f]"  # bold, reset, one width, reverse, italic, struck, under
)
_CTCP_DELIMITER = "\x01"


def strip_formatting(text: str, *, nick: str) -> str | None:
    """None: it is a question of one program to another, and nobody said anything."""
    if not text.startswith(_CTCP_DELIMITER):
        return _FORMAT_CODES.sub("", text)
    verb, _, rest = text.strip(_CTCP_DELIMITER).partition(" ")
    return f"* {nick} {_FORMAT_CODES.sub('', rest)}" if verb.upper() == "ACTION" else None


# MERGED holdfast.platforms.irc.names: Names: nicks and channels as a server compares them, and whether one is spoken of in a text.
# https://modern.ircdocs.horse/#casemapping-parameter
_ASCII = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_RFC1459 = str.maketrans(f"{string.ascii_uppercase}[]\\~", f"{string.ascii_lowercase}{{}}|^")
_STRICT = str.maketrans(f"{string.ascii_uppercase}[]\\", f"{string.ascii_lowercase}{{}}|")
_MAPPINGS = {"ascii": _ASCII, "rfc1459": _RFC1459, "rfc1459-strict": _STRICT}
_NICK_CHARACTERS = r"A-Za-z0-9\[\]\\`_^{|}\-"
# A target must be one, and nothing but it.
_TARGET = re.compile(r"[^\s,:\x00-\x1f][^\s,\x00-\x1f]*")


class IrcNames:
    """How one server tells names apart, by what it says of itself (`RPL_ISUPPORT`)."""

    def __init__(self, features: Mapping[str, str]) -> None:
        self._mapping = _MAPPINGS.get(features.get("CASEMAPPING", "rfc1459").lower(), _ASCII)
        self._channels = tuple(features.get("CHANTYPES", "#&"))
        self._status = features.get("STATUSMSG", "")

    def fold(self, name: str) -> str:
        """Two names that fold alike are one."""
        return name.translate(self._mapping)

    def is_same(self, one: str, other: str) -> bool:
        return self.fold(one) == self.fold(other)

    def is_channel(self, target: str) -> bool:
        return target.startswith(self._channels)

    def is_status_message(self, target: str) -> bool:
        """Whether it is for those of some rank in a channel alone: `@#channel`."""
        bare = target.lstrip(self._status) if self._status else target
        return bare != target and self.is_channel(bare)

    def mentions(self, text: str, nick: str) -> bool:
        """Whether it stands there as a word of its own."""
        name = re.escape(self.fold(nick))
        return bool(
            re.search(rf"(?<![{_NICK_CHARACTERS}]){name}(?![{_NICK_CHARACTERS}])", self.fold(text))
        )

    def strip_nick(self, text: str, nick: str) -> str:
        """Without that nick in front, as people address each other: "nick: text". Where it is the
        first word of a sentence, it stays, unless that is a command."""
        name = re.escape(self.fold(nick))
        ahead = re.match(
            rf"\s*(?:@{name}(?![{_NICK_CHARACTERS}])|{name}(?=\s*[:,]|\s+[/!]))\s*[:,]?\s*",
            self.fold(text),
        )
        return text if ahead is None else text[ahead.end() :]


def is_valid_target(name: str) -> bool:
    """Whether a line can be sent there: no space, comma or line end makes more of it."""
    return bool(_TARGET.fullmatch(name))


# MERGED holdfast.platforms.irc.spelling: Spelling: by which id a channel is known here, however it is written on the wire or by people.
class ChannelIds:
    """Owns the names of the channels that the configuration speaks of, as one server compares them
    (https://modern.ircdocs.horse/#casemapping-parameter): where `[` and `{` are one sign, only the
    server says so. Every other channel is known by its name in small letters, as that server has
    them."""

    def __init__(self, names: IrcNames, chats: Iterable[str]) -> None:
        self._names = names
        self._configured: dict[str, str] = {}
        for chat in filter(names.is_channel, chats):
            known = self._configured.setdefault(names.fold(chat), chat)
            if known != chat:
                log.warning(
                    "For this server %s and %s are one channel: what is set for the second holds "
                    "nowhere.",
                    known,
                    chat,
                    extra={"action": "chat_configured_twice"},
                )

    def normalise(self, name: str) -> str:
        """What is no channel is a person, whose name is not ours to change."""
        if not self._names.is_channel(name):
            return name
        folded = self._names.fold(name)
        return self._configured.get(folded, folded)
