"""Renders Markdown for Discord: its own dialect, with every character escaped that Discord would
otherwise read as markup.

The dialect: https://support.discord.com/hc/en-us/articles/210298617 and, for what that leaves open,
the rules of the parser it is built on (simple-markdown). A backslash escapes any character except
letters, digits and space; there are three levels of headings; quotes do not nest; a masked link
whose text looks like a URL is shown as written. Whom a message notifies is decided by
`allowed_mentions`, not by its text.
"""

import re
from functools import lru_cache

from holdfast.platforms.text.layout import (
    LayoutItem,
    LayoutOptions,
    PreformattedText,
    StyledRun,
    TextLine,
    TextSpan,
    lay_out,
    styled_runs,
)
from holdfast.platforms.text.markdown import Emphasis, parse_markdown

MAX_LENGTH = 2000  # characters of a message
ZERO_WIDTH_SPACE = "\u200b"  # separates two marks that would be read as one
_LAYOUT = LayoutOptions(bullets=("-",), columns=56, mail_links=False)
_PLAIN_LAYOUT = LayoutOptions()
_NESTED_QUOTE = "│ "
_MARKUP = re.compile(r"[\\*_~`|\[\]<>]|:(?=//)")  # a URL must not extend into escaped text
_LINE_START_MARKUP = re.compile(r"(?:[#>-]|\d{1,9}(?=[.)]))")
_TICKS = re.compile(r"`(?=`|$)")
_LANGUAGE = re.compile(r"[a-zA-Z0-9_+.#-]+")
_LOOKS_LIKE_URL = re.compile(r"[a-z]+://|\w\.\w", re.IGNORECASE)


@lru_cache(maxsize=4)  # the text that was measured is sent next
def render(text: str) -> str:
    """Render a text; never empty for a text that is not."""
    return "\n".join(
        _render_item(piece) for piece in lay_out(parse_markdown(text), _LAYOUT)
    ).strip()


def fits(text: str, *, limit: int = MAX_LENGTH) -> bool:
    return len(render(text)) <= limit


def _render_item(piece: LayoutItem) -> str:
    quote = "> " if piece.quote else ""
    if isinstance(piece, PreformattedText):
        return "\n".join(quote + line for line in _code_block(piece).split("\n"))
    ahead = quote + _NESTED_QUOTE * (piece.quote - 1) + " " * piece.indent
    if piece.bullet is not None:  # a list needs nothing in front of it
        ahead += (_PLAIN_LAYOUT if piece.quote > 1 else _LAYOUT).bullet_text(piece.bullet)
    if _is_heading(piece):
        return f"{ahead}{'#' * piece.heading} {_render_line(piece)}"
    return ahead + _render_line(piece)


def _is_heading(line: TextLine) -> bool:
    """Whether Discord would read the line as a heading."""
    apart = line.quote < 2 and line.bullet is None and not line.indent
    return apart and 0 < line.heading <= 3


def _code_block(pre: PreformattedText) -> str:
    language = pre.language if _LANGUAGE.fullmatch(pre.language) else ""
    # Three ticks inside would close it, and so would one that touches those of its end.
    text = _TICKS.sub(f"`{ZERO_WIDTH_SPACE}", pre.text)
    return f"```{language}\n{text}\n```"


def _render_line(line: TextLine) -> str:
    bold = line.heading > 0 and not _is_heading(line)
    written = ""
    for run in styled_runs(line.spans, bold=bold):
        piece = _render_run(run, first=not written.strip())
        if written and piece and _would_merge(written[-1], piece[0]):
            written += ZERO_WIDTH_SPACE
        written += piece
    return written.strip()


def _would_merge(before: str, behind: str) -> bool:
    """Whether two marks would be read as one longer mark, or as one that closes only before
    space."""
    return before in "*_~`" and (behind in "*_~`" or (before == "_" and behind.isalnum()))


def _render_run(run: StyledRun, *, first: bool) -> str:
    if run.span.code:
        return run.space_before + _code(run.text) + run.space_after
    if run.span.href:
        return run.space_before + _link(run, first=first) + run.space_after
    words = _escape(run.text, first=first)
    return run.space_before + _apply_styles(words, run.span) + run.space_after


def _apply_styles(text: str, span: TextSpan) -> str:
    if not text:
        return ""
    if Emphasis.STRIKE in span.styles:
        text = f"~~{text}~~"
    if Emphasis.ITALIC in span.styles:
        mark = "_" if Emphasis.BOLD in span.styles else "*"
        text = f"{mark}{text}{mark}"
    if Emphasis.BOLD in span.styles:
        text = f"**{text}**"
    return text


def _escape(text: str, *, first: bool) -> str:
    plain = _MARKUP.sub(r"\\\g<0>", text)
    if first and (found := _LINE_START_MARKUP.match(plain)):
        at = found.end() if found[0].isdigit() else 0
        plain = f"{plain[:at]}\\{plain[at:]}"
    return plain


def _code(text: str) -> str:
    if not text.strip("` "):  # only characters that would close it
        return _escape(text, first=True)
    # Three ticks anywhere would open a block, and one at either end would merge with the marks.
    marks = "``" if "`" in text else "`"
    ahead = ZERO_WIDTH_SPACE if text.startswith("`") else ""
    return f"{marks}{ahead}{_TICKS.sub(f'`{ZERO_WIDTH_SPACE}', text)}{marks}"


def _link(run: StyledRun, *, first: bool) -> str:
    address = run.span.href.replace("(", "%28").replace(")", "%29")
    if run.span.shows_url:
        return f"<{run.text}>"
    words = _escape(run.text, first=first)
    if _LOOKS_LIKE_URL.search(run.text):
        return f"{words} (<{run.span.href}>)"
    # Around the whole, because an underscore of the URL would be read as the end of a style.
    return f"[{_apply_styles(words, run.span)}](<{address}>)"
