"""Discord: its own Markdown, with every sign escaped that it would read and that was not meant.

What it reads: https://support.discord.com/hc/en-us/articles/210298617 and, for what that leaves
open, the rules of the parser it is built on (simple-markdown): a backslash makes any sign but
letters, digits and space a plain one; there are three levels of headings; quotes do not nest;
a masked link whose words look like an address is shown as it was written. Whom a message may
notify is not for its text to say but for `allowed_mentions`.
"""

import re
from functools import lru_cache

from holdfast.platforms.text.flow import Line, Look, Piece, Pre, Span, flow
from holdfast.platforms.text.reading import read
from holdfast.platforms.text.styling import Run, runs
from holdfast.platforms.text.tree import Style

LONGEST = 2000  # characters of a message
APART = "\u200b"  # stands between two marks that would be read as one
_LOOK = Look(bullets=("-",), columns=56, mailboxes=False)
_WRITTEN = Look()
_NESTED = "│ "
_READ = re.compile(r"[\\*_~`|\[\]<>]|:(?=//)")  # no address goes on into what is escaped
_READ_FIRST = re.compile(r"(?:[#>-]|\d{1,9}(?=[.)]))")
_TICKS = re.compile(r"`(?=`|$)")
_LANGUAGE = re.compile(r"[a-zA-Z0-9_+.#-]+")
_LIKE_AN_ADDRESS = re.compile(r"[a-z]+://|\w\.\w", re.IGNORECASE)


@lru_cache(maxsize=4)  # what was measured is sent next
def render(text: str) -> str:
    """Never empty where the text is not."""
    return "\n".join(_piece(piece) for piece in flow(read(text), _LOOK)).strip()


def fits(text: str, *, limit: int = LONGEST) -> bool:
    return len(render(text)) <= limit


def _piece(piece: Piece) -> str:
    quote = "> " if piece.quote else ""
    if isinstance(piece, Pre):
        return "\n".join(quote + line for line in _fenced(piece).split("\n"))
    ahead = quote + _NESTED * (piece.quote - 1) + " " * piece.indent
    if piece.bullet is not None:  # a list is one only where nothing stands before it
        ahead += (_WRITTEN if piece.quote > 1 else _LOOK).mark(piece.bullet)
    if _is_big(piece):
        return f"{ahead}{'#' * piece.heading} {_line(piece)}"
    return ahead + _line(piece)


def _is_big(line: Line) -> bool:
    """Whether it is one of the headings that Discord has, where it has them."""
    apart = line.quote < 2 and line.bullet is None and not line.indent
    return apart and 0 < line.heading <= 3


def _fenced(pre: Pre) -> str:
    language = pre.language if _LANGUAGE.fullmatch(pre.language) else ""
    # Three ticks within would close it, and so would one that touches those of its end.
    text = _TICKS.sub(f"`{APART}", pre.text)
    return f"```{language}\n{text}\n```"


def _line(line: Line) -> str:
    bold = line.heading > 0 and not _is_big(line)
    written = ""
    for run in runs(line.spans, bold=bold):
        piece = _run(run, first=not written.strip())
        if written and piece and _touch(written[-1], piece[0]):
            written += APART
        written += piece
    return written.strip()


def _touch(before: str, behind: str) -> bool:
    """Two marks that would be counted as one longer mark, or one that closes only before space."""
    return before in "*_~`" and (behind in "*_~`" or (before == "_" and behind.isalnum()))


def _run(run: Run, *, first: bool) -> str:
    if run.span.code:
        return run.ahead + _code(run.text) + run.behind
    if run.span.href:
        return run.ahead + _link(run, first=first) + run.behind
    words = _escaped(run.text, first=first)
    return run.ahead + _styled(words, run.span) + run.behind


def _styled(words: str, span: Span) -> str:
    if not words:
        return ""
    if Style.STRIKE in span.styles:
        words = f"~~{words}~~"
    if Style.ITALIC in span.styles:
        mark = "_" if Style.BOLD in span.styles else "*"
        words = f"{mark}{words}{mark}"
    if Style.BOLD in span.styles:
        words = f"**{words}**"
    return words


def _escaped(text: str, *, first: bool) -> str:
    plain = _READ.sub(r"\\\g<0>", text)
    if first and (found := _READ_FIRST.match(plain)):
        at = found.end() if found[0].isdigit() else 0
        plain = f"{plain[:at]}\\{plain[at:]}"
    return plain


def _code(text: str) -> str:
    if not text.strip("` "):  # nothing but what would close it
        return _escaped(text, first=True)
    # Three ticks anywhere would open a block, and one at either end is counted with the marks.
    marks = "``" if "`" in text else "`"
    ahead = APART if text.startswith("`") else ""
    return f"{marks}{ahead}{_TICKS.sub(f'`{APART}', text)}{marks}"


def _link(run: Run, *, first: bool) -> str:
    address = run.span.href.replace("(", "%28").replace(")", "%29")
    if run.span.bare:
        return f"<{run.text}>"
    words = _escaped(run.text, first=first)
    if _LIKE_AN_ADDRESS.search(run.text):
        return f"{words} (<{run.span.href}>)"
    # Around the whole, an underscore of the address would be read as the end of a style.
    return f"[{_styled(words, run.span)}](<{address}>)"
