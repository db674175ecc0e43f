"""Marks: whether a text has any that Markdown reads, and the signs that no platform takes."""

import re

# Anything that could be more than its letters; what has none of it needs no parser.
_MARKUP = re.compile(
    r"[*_~`\[<&\\|]|://"
    r"|^(?:[ ]*(?:[#>]|[-+](?:\s|$)|\d{1,9}[.)](?:\s|$)|=+[ ]*$|-+[ ]*$)|[ ]*\t|[ ]{4})",
    re.MULTILINE,
)
# Control codes; halves of characters; signs that Unicode will never assign, which XML forbids.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_LINE_ENDS = re.compile("\r\n?|[\u2028\u2029\x0b\x0c\x85]")


def has_markup(text: str) -> bool:
    return _MARKUP.search(text) is not None


def sanitize(text: str) -> str:
    """Without what a platform would refuse, or take for a command of its protocol."""
    if text.isascii() and text.isprintable():
        return text
    return _FORBIDDEN.sub("", _LINE_ENDS.sub("\n", text))
