"""Words as systemd writes and reads them: quotes, escapes, `%` and `$`."""

import re
from collections.abc import Iterator, Mapping

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
# No other space is one to systemd than the four that are named here.
_WORD_PART = re.compile(
    r"""
      "(?P<double>(?:[^"\\]|\\.)*)"
    | '(?P<single>(?:[^'\\]|\\.)*)'
    | (?P<bare>(?:[^ \t\n\r"'\\]|\\.)+)
    | (?P<space>[ \t\n\r]+)
    | (?P<open>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
# fmt: off
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
}
# fmt: on


def quote(word: str, *, variables: bool = False) -> str:
    """A word that is read back as it is. `variables`: where it stands, `$` has a meaning."""
    text = word.replace("%", "%%")
    if variables:
        text = text.replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def split_words(value: str, *, specifiers: Mapping[str, str] | None = None) -> list[str]:
    """The words of a value, as systemd takes it apart. Raises `ValueError` for open quotes.

    `%%` is a `%`; a specifier that is not told stays as it is written.
    """
    return [_expand(word, specifiers or {}) for word in _iter_words(value)]


def unescape_variables(word: str) -> str:
    """An argument of a command: `$$` is a `$`."""
    return word.replace("$$", "$")


def _iter_words(value: str) -> Iterator[str]:
    word: str | None = None
    for found in _WORD_PART.finditer(value):
        kind = found.lastgroup or "open"
        if kind == "open":
            raise ValueError(f"a quote is left open: {value}")
        if kind != "space":
            word = (word or "") + _ESCAPE.sub(_unescape, found[kind])
        elif word is not None:
            yield word
            word = None
    if word is not None:
        yield word


def _unescape(found: re.Match[str]) -> str:
    escape = found[1]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if len(escape) == 1:
        return escape
    if escape[0] in "xuU":
        return chr(int(escape[1:], 16))
    return chr(int(escape, 8))


def _expand(word: str, specifiers: Mapping[str, str]) -> str:
    known = {"%": "%", **specifiers}
    return re.sub(r"%(.)", lambda found: known.get(found[1], found[0]), word)
