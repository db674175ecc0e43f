"""Quoting: backslashes, `$'…'` and braces, taken away as bash does."""

import re
from itertools import product

from holdfast.tools.shell.markers import BRACE_CLOSE, BRACE_COMMA, BRACE_OPEN, sanitise

MAX_BRACE_WORDS = 64

_ESCAPES = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL
)
_NAMED_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b"}
_NAMED_ESCAPES |= {"f": "\f", "v": "\v"}
_BRACES = str.maketrans({"{": BRACE_OPEN, ",": BRACE_COMMA, "}": BRACE_CLOSE})
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")


def unescape_ansi(text: str) -> str:
    """What `$'…'`, `echo -e` and `printf` make of their escapes."""
    return _ESCAPES.sub(_unescape_one, text)


def _unescape_one(match: re.Match[str]) -> str:
    code = match[1]
    if code[0] in "xuU" and len(code) > 1:
        number = int(code[1:], 16)
    elif code[0] in "01234567":
        number = int(code, 8)
    elif code[0] == "c":
        number = ord(code[1]) & 31
    else:
        return _NAMED_ESCAPES.get(code, code)
    return sanitise(chr(number)) if number <= 0x10FFFF else "?"


def unescape_word(text: str) -> str:
    """A word outside of quotes: its own braces become live, what had a backslash is plain."""
    if "\\" not in text:
        return text.translate(_BRACES)
    pieces, at = [], 0
    for match in _BACKSLASH.finditer(text):
        pieces.append(text[at : match.start()].translate(_BRACES))
        pieces.append("" if match[1] == "\n" else match[1])
        at = match.end()
    return "".join((*pieces, text[at:].translate(_BRACES)))


def unescape_quoted(text: str) -> str:
    """The inside of double quotes."""
    if "\\" not in text:
        return text
    return _IN_QUOTES.sub(lambda match: "" if match[1] == "\n" else match[1], text)


def expand_braces(text: str) -> list[str]:
    """All words that a word with live braces stands for, but no more than a few dozen."""
    if BRACE_OPEN not in text:
        return [_restore_braces(text)]
    return [_restore_braces(word) for word in _expand_nested(text, 0)[:MAX_BRACE_WORDS]]


def _expand_nested(text: str, depth: int) -> list[str]:
    start = text.find(BRACE_OPEN)
    end = _closing_brace(text, start)
    if start < 0 or end < 0 or depth > 8:
        return [text]
    choices = _brace_choices(text[start + 1 : end])
    if len(choices) < 2:
        head = text[: start + 1].replace(BRACE_OPEN, "{")
        return [head + rest for rest in _expand_nested(text[start + 1 :], depth + 1)]
    inner = [word for choice in choices for word in _expand_nested(choice, depth + 1)]
    ends = _expand_nested(text[end + 1 :], depth + 1)
    pairs = product(inner[:MAX_BRACE_WORDS], ends[:MAX_BRACE_WORDS])
    return [text[:start] + one + other for one, other in pairs][:MAX_BRACE_WORDS]


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for at in range(max(start, 0), len(text)):
        depth += (text[at] == BRACE_OPEN) - (text[at] == BRACE_CLOSE)
        if depth == 0 and text[at] == BRACE_CLOSE:
            return at
    return -1


def _brace_choices(inside: str) -> list[str]:
    if (found := _RANGE.fullmatch(inside)) is not None:
        return _brace_range(found[1], found[2])
    choices, depth = [""], 0
    for letter in inside:
        depth += (letter == BRACE_OPEN) - (letter == BRACE_CLOSE)
        if letter == BRACE_COMMA and depth == 0:
            choices.append("")
        else:
            choices[-1] += letter
    return choices


def _brace_range(first: str, last: str) -> list[str]:
    if first.isalpha() != last.isalpha() or len(first) > 9 or len(last) > 9:
        return [first, last]
    low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    step = 1 if low <= high else -1
    numbers = range(low, high + step, step)[:MAX_BRACE_WORDS]
    return [chr(number) if first.isalpha() else str(number) for number in numbers]


def _restore_braces(text: str) -> str:
    return text.replace(BRACE_OPEN, "{").replace(BRACE_COMMA, ",").replace(BRACE_CLOSE, "}")
