"""The frame: the lines of one screen, as many and as long as the terminal has room for."""

import textwrap
from collections.abc import Sequence
from datetime import datetime
from os import terminal_size

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration, moment
from holdfast.cli.status.status_shown import turn_table
from holdfast.cli.top.ink import EMPTY, Ink, Line, Piece, apart, fitted, length, line
from holdfast.cli.top.sight import Sight
from holdfast.cli.top.summary import headline, summary
from holdfast.cli.top.view import Page, View
from holdfast.core.ops.facts import Document, Snapshot, TurnFacts

_TURNS, _DETAILS = 5, 8  # lines that the lower part has at the least, if it has as many to show
_HELP = (
    ("up, down, j, k", "choose a turn; page up and down, g and G go further"),
    ("enter", "show all that is known of it; again, or escape: back"),
    ("p", "pause the screen, so that it can be read; again: go on"),
    ("space", "look now"),
    ("? or h", "show or leave this help"),
    ("q", "quit"),
)


def frame(sight: Sight, view: View, size: terminal_size) -> list[Line]:
    """Exactly as many lines as the terminal has, none of them longer than it is wide."""
    lines = [_head(sight, view, size.columns), *_body(sight, view, size)]
    room = max(1, size.lines - 1)
    lines = lines[:room] + [EMPTY] * (room - len(lines))
    lines.append(_foot(sight, view, size.columns))
    return [_across(fitted(each, size.columns), size.columns) for each in lines[-size.lines :]]


def _across(pieces: Line, columns: int) -> Line:
    """A line that is chosen is so to the edge, whatever stands in it."""
    if not pieces or pieces[0].ink is not Ink.CHOSEN:
        return pieces
    return (*pieces, Piece(" " * (columns - length(pieces)), Ink.CHOSEN))


def whole(sight: Sight) -> list[Line]:
    """The same for what is no screen: no line is cut, and every turn is listed."""
    document = sight.document
    if document is None:
        return [line(text) for text in sight.why.splitlines()]
    told = summary(document, columns=0, now=sight.at)
    turns = _turns(document.snapshot, sight.at, chosen=None)
    return [headline(document), *told, *([EMPTY, *turns] if turns else [])]


def _head(sight: Sight, view: View, columns: int) -> Line:
    clock = line(datetime.fromtimestamp(sight.at).strftime("%H:%M:%S"), Ink.FAINT)
    right = line(" PAUSED ", Ink.CHOSEN) if view.paused else clock
    if sight.document is None:
        return apart(line("holdfast does not answer", Ink.BAD), right, columns)
    return apart(headline(sight.document), right, columns)


def _body(sight: Sight, view: View, size: terminal_size) -> list[Line]:
    if view.page is Page.HELP:
        return [EMPTY, *(_named(name, text) for name, text in _HELP)]
    if sight.document is None:
        return [EMPTY, *_told(sight.why, size.columns), EMPTY, line("  It is waited for.")]
    return _parts(sight.document, view, size, now=sight.at)


def _told(text: str, columns: int) -> list[Line]:
    wrapped = (textwrap.wrap(each, max(20, columns - 4)) for each in safe(text).splitlines())
    return [line(f"  {each}") for lines in wrapped for each in lines]


def _parts(document: Document, view: View, size: terminal_size, *, now: float) -> list[Line]:
    """The lower part gets what the upper leaves, and the upper is cut where that is too little."""
    turns = document.snapshot.open_turns
    upper = summary(document, columns=size.columns, now=now)
    room = size.lines - 3  # less the head, the foot, and a line between the parts
    opened = view.page is Page.DETAILS and turns
    upper = upper[: max(0, room - (_DETAILS if opened else min(_TURNS, len(turns) + 1)))]
    chosen = view.chosen(turns)
    if opened:
        return [*upper, EMPTY, *_details(turns[chosen], now)]
    listed = _turns(document.snapshot, now, chosen=chosen)
    return [*upper, EMPTY, *_scrolled(listed, room - len(upper), chosen)]


def _turns(snapshot: Snapshot, now: float, *, chosen: int | None) -> list[Line]:
    if not snapshot.open_turns:
        return [] if chosen is None else [line("  No turn is open.", Ink.FAINT)]
    header, *table = turn_table(snapshot.open_turns, now)
    lines = [
        line(text, Ink.CHOSEN if place == chosen else _ink(snapshot.open_turns[place]))
        for place, text in enumerate(table)
    ]
    more = [line(f"  … and {snapshot.more_turns} more")] if snapshot.more_turns else []
    return [line(header, Ink.FAINT), *lines, *more]


def _ink(turn: TurnFacts) -> Ink:
    return Ink.WARNING if turn.state == "waiting" else Ink.PLAIN


def _scrolled(lines: Sequence[Line], room: int, chosen: int) -> list[Line]:
    """The header stays; below it are those around the chosen one."""
    header, rest = lines[:1], lines[1:]
    room = max(1, room - 1)
    start = max(0, min(chosen - room // 2, len(rest) - room))
    return [*header, *rest[start : start + room]]


def _details(turn: TurnFacts, now: float) -> list[Line]:
    since = f"{duration(max(0.0, now - turn.started_at))}, since {moment(turn.started_at)}"
    told = [
        ("turn", turn.turn),
        ("session", turn.session),
        ("where", f"{turn.platform} {turn.chat}"),
        ("state", f"{turn.state} for {since}"),
        ("step", str(turn.step)),
        ("tools", ", ".join(turn.tools) or "none runs"),
        ("behind it", f"{turn.queued} messages" if turn.queued else "nothing"),
        ("follow it", f"holdfast sessions follow {turn.session}"),
    ]
    return [_named(name, safe(text)) for name, text in told]


def _named(name: str, text: str) -> Line:
    return Piece(f"  {name:<14}  ", Ink.FAINT), Piece(text)


def _foot(sight: Sight, view: View, columns: int) -> Line:
    keys = line(" q quit  ↑↓ choose  enter details  p pause  ? help", Ink.FAINT)
    if sight.document is None or not sight.turns:
        return keys
    number = len(sight.turns) + sight.document.snapshot.more_turns
    place = line(f"{view.chosen(sight.turns) + 1} of {number} ", Ink.FAINT)
    return apart(keys, place, columns)
