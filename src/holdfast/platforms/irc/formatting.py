"""Formatting: what people write, without the codes that colour it, and their /me as words.

https://modern.ircdocs.horse/formatting and https://modern.ircdocs.horse/ctcp.
"""

import re

_CODES = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?"  # a colour, and one behind it
    r"|\x04(?:[0-9A-Fa-f]{6}(?:,[0-9A-Fa-f]{6})?)?"  # the same in hexadecimal
    r"|[\x02\x0f\x11\x16\x1d\x1e\x1f]"  # bold, reset, one width, reverse, italic, struck, under
)
_MARK = "\x01"


def plain(text: str, *, nick: str) -> str | None:
    """None: it is a question of one program to another, and nobody said anything."""
    if not text.startswith(_MARK):
        return _CODES.sub("", text)
    verb, _, rest = text.strip(_MARK).partition(" ")
    return f"* {nick} {_CODES.sub('', rest)}" if verb.upper() == "ACTION" else None
