"""Formatting: what people write, without the codes that colour it, and their /me as words.

https://modern.ircdocs.horse/formatting and https://modern.ircdocs.horse/ctcp.
"""

import re

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
