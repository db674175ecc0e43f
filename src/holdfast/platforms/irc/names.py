"""Names: nicks and channels as a server compares them, and whether one is spoken of in a text."""

import re
import string
from collections.abc import Mapping

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
