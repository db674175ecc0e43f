"""Fragments: what may be commands in a text where the grammar lost its way."""

import re
import shlex
from collections.abc import Iterator

from holdfast.tools.shell.limits import MOST_ROUNDS
from holdfast.tools.shell.quoting import expand_braces, unescape_word

_ENDS = re.compile(r"[;\n|&()]")
_OPENINGS = ("{", "}", "!", "if", "then", "else", "elif", "while", "until", "do", "")


def fragments_of(script: str) -> Iterator[list[str]]:
    """The words of each piece between two ends of a command. The grammar knows a little less
    than bash, so these are tried besides what it made of the text."""
    for piece in _ENDS.split(script)[:MOST_ROUNDS]:
        words = [plain for word in _words(piece) for plain in expand_braces(unescape_word(word))]
        while words and words[0] in _OPENINGS:
            words.pop(0)
        if words:
            yield words


def _words(piece: str) -> list[str]:
    try:
        return shlex.split(piece, comments=True)
    except ValueError:
        return piece.split()
