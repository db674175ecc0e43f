"""Marks: characters that stand, in a text, for what cannot be known before it runs.

They are control characters that no command has. All that the grammar is given stays below
U+0100: its scanner looks characters up in a table of 256, and reads past the end of it for any
other, which ends the process. So the others are spelled out on the way in, and put back where
people look.
"""

import re

UNKNOWN = "\x91"  # some text
READ = "\x92"  # what a file holds
NET = "\x93"  # what came over the network
CODED = "\x94"  # the text beside it had been encoded

MARKS = UNKNOWN + READ + NET + CODED

# Only inside the expansion of one word: where it splits, and the braces that were not quoted.
SPLIT = "\x95"
OPEN = "\x96"
COMMA = "\x97"
CLOSE = "\x98"

_BARE = dict.fromkeys(map(ord, MARKS))
_TYPED: dict[int, str | None] = dict.fromkeys(range(0x80, 0xA0), "?") | {0: None}
_WIDE = re.compile(r"[^\x00-\xff]")
_SPELLED = re.compile("\x9e([0-9a-f]{1,6})\x9f")


def cleaned(text: str) -> str:
    """The text as the grammar may have it, with marks that somebody typed made harmless. A
    shell leaves NUL out, and so is it here."""
    return spelled(text.translate(_TYPED))


def spelled(text: str) -> str:
    """The text with every character that has no place in the grammar's table spelled out."""
    if text.isascii():
        return text
    return _WIDE.sub(lambda match: f"\x9e{ord(match[0]):x}\x9f", text)


def bare(text: str) -> str:
    return text.translate(_BARE)


def marks_of(text: str) -> str:
    """Which marks the text has, each once."""
    return "".join(mark for mark in MARKS if mark in text)


def shown(text: str) -> str:
    """The text as people may see it."""
    for mark in MARKS:
        text = text.replace(mark, "…" if mark != CODED else "")
    text = _SPELLED.sub(lambda match: chr(int(match[1], 16)), text)
    return text.encode("utf-8", "replace").decode()
