"""Parsing of untrusted HTML: tags that never end.

Imports the standard library only: the worker that reads documents runs without site-packages.
"""

import re

_MAX_TAG_LENGTH = 4096  # characters; a longer one contains an embedded image
# A comment, a tag whose quotes are closed, any other tag, and text that only looks like one. Except
# for a comment, none is searched beyond the next "<".
_MARKUP = re.compile(
    r"""<!--.*?(?:-->|\Z)|<(?:[^<>"']|"[^"<]*"|'[^'<]*')*+>|<[^<>]*+>|<""", re.DOTALL
)
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9]*")


def close_html_tags(page: str) -> str:
    """The same page without comments and declarations, in which every tag is closed.

    For each unclosed tag, the parser of the standard library searches all of the text that follows:
    a few kilobytes of unclosed tags would take it minutes.
    """
    return _MARKUP.sub(_close_tag, page)


def _close_tag(found: re.Match[str]) -> str:
    markup, tag = found[0], _TAG.match(found[0])
    if tag is None:
        return " " if markup[1:2] in ("!", "?") else "&lt;" + markup[1:]
    return markup if len(markup) <= _MAX_TAG_LENGTH else f"{tag[0]}>"
