"""Fragments: what may be commands in a text where the grammar lost its way."""

import re
import shlex
from collections.abc import Iterator

from holdfast.tools.shell.limits import MAX_ITERATIONS
from holdfast.tools.shell.quoting import expand_braces, unescape_word

_SEPARATORS = re.compile(r"[;\n|&()]")
_LEADING_KEYWORDS = ("{", "}", "!", "if", "then", "else", "elif", "while", "until", "do", "")


def split_fragments(script: str) -> Iterator[list[str]]:
    """The words of each piece between two ends of a command. The grammar knows a little less
    than bash, so these are tried besides what it made of the text."""
    for piece in _SEPARATORS.split(script)[:MAX_ITERATIONS]:
        words = [
            plain for word in _split_words(piece) for plain in expand_braces(unescape_word(word))
        ]
        while words and words[0] in _LEADING_KEYWORDS:
            words.pop(0)
        if words:
            yield words


def _split_words(piece: str) -> list[str]:
    try:
        return shlex.split(piece, comments=True)
    except ValueError:
        return piece.split()
