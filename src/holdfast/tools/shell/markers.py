"""Marker characters that stand, in a text, for what cannot be known before it runs.

They are control characters that no command has. All that the grammar is given stays below
U+0100: its scanner looks characters up in a table of 256, and reads past the end of it for any
other, which ends the process. So the others are escaped on the way in, and put back where
people look.
"""

import re

UNKNOWN = "\x91"  # some text
FILE_CONTENT = "\x92"  # what a file holds
NETWORK_DATA = "\x93"  # what came over the network
DECODED = "\x94"  # the text beside it had been encoded

MARKERS = UNKNOWN + FILE_CONTENT + NETWORK_DATA + DECODED

# Only inside the expansion of one word: where it splits, and the braces that were not quoted.
WORD_SPLIT = "\x95"
BRACE_OPEN = "\x96"
BRACE_COMMA = "\x97"
BRACE_CLOSE = "\x98"

_WITHOUT_MARKERS = dict.fromkeys(map(ord, MARKERS))
_TYPED_MARKERS: dict[int, str | None] = dict.fromkeys(range(0x80, 0xA0), "?") | {0: None}
_WIDE_CHARACTER = re.compile(r"[^\x00-\xff]")
_ESCAPED_CHARACTER = re.compile("\x9e([0-9a-f]{1,6})\x9f")


def sanitise(text: str) -> str:
    """The text in a form that the grammar accepts. Characters of the input that are also our
    markers are replaced, and NUL is removed, as a shell does."""
    if text.isascii():
        return text.replace("\0", "")
    return escape_wide(text.translate(_TYPED_MARKERS))


def escape_wide(text: str) -> str:
    """The text with every character that has no place in the grammar's table spelled out."""
    if text.isascii():
        return text
    return _WIDE_CHARACTER.sub(lambda match: f"\x9e{ord(match[0]):x}\x9f", text)


def strip_markers(text: str) -> str:
    if text.isascii():  # as no marker is
        return text
    return text.translate(_WITHOUT_MARKERS)


def markers_in(text: str) -> str:
    """Which marks the text has, each once."""
    if text.isascii():
        return ""
    return "".join(mark for mark in MARKERS if mark in text)


def displayable(text: str) -> str:
    """The text as people may see it."""
    if text.isascii():
        return text
    for mark in MARKERS:
        text = text.replace(mark, "…" if mark != DECODED else "")
    text = _ESCAPED_CHARACTER.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-8", "replace").decode()
