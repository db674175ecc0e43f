"""The frame: the lines of one screen, as many and as long as the terminal has room for."""

import textwrap
from collections.abc import Sequence
from datetime import datetime
from os import terminal_size

from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_duration, format_time
from holdfast.cli.status.status_shown import format_turn_table
from holdfast.cli.top.ink import (
    EMPTY_LINE,
    TerminalLine,
    TerminalSpan,
    TerminalStyle,
    justify,
    line_width,
    terminal_line,
    truncate_line,
)
from holdfast.cli.top.sight import StatusSample
from holdfast.cli.top.summary import headline_line, render_summary
from holdfast.cli.top.view import TopPage, TopView
from holdfast.core.ops.facts import GatewaySnapshot, StatusReport, TurnStatus

_MIN_TURN_LINES, _MIN_DETAIL_LINES = (
    5,
    8,
)  # lines that the lower part has at the least, if it has as many to show
_KEY_HELP = (
    ("up, down, j, k", "choose a turn; page up and down, g and G go further"),
    ("enter", "show all that is known of it; again, or escape: back"),
    ("p", "pause the screen, so that it can be read; again: go on"),
    ("space", "look now"),
    ("? or h", "show or leave this help"),
    ("q", "quit"),
)


def render_frame(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    """Exactly as many lines as the terminal has, none of them longer than it is wide."""
    lines = [_header_line(sample, view, size.columns), *_body_lines(sample, view, size)]
    room = max(1, size.lines - 1)
    lines = lines[:room] + [EMPTY_LINE] * (room - len(lines))
    lines.append(_footer_line(sample, view, size.columns))
    return [
        _fill_selected_line(truncate_line(each, size.columns), size.columns)
        for each in lines[-size.lines :]
    ]


def _fill_selected_line(line: TerminalLine, columns: int) -> TerminalLine:
    """A line that is chosen is so to the edge, whatever stands in it."""
    if not line or line[0].style is not TerminalStyle.SELECTED:
        return line
    return (*line, TerminalSpan(" " * (columns - line_width(line)), TerminalStyle.SELECTED))


def render_plain(sample: StatusSample) -> list[TerminalLine]:
    """The same for what is no screen: no line is cut, and every turn is listed."""
    document = sample.document
    if document is None:
        return [terminal_line(text) for text in sample.down_text.splitlines()]
    told = render_summary(document, columns=0, now=sample.at)
    turns = _turn_lines(document.snapshot, sample.at, selected=None)
    return [headline_line(document), *told, *([EMPTY_LINE, *turns] if turns else [])]


def _header_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    clock = terminal_line(datetime.fromtimestamp(sample.at).strftime("%H:%M:%S"), TerminalStyle.DIM)
    right = terminal_line(" PAUSED ", TerminalStyle.SELECTED) if view.paused else clock
    if sample.document is None:
        return justify(terminal_line("holdfast does not answer", TerminalStyle.BAD), right, columns)
    return justify(headline_line(sample.document), right, columns)


def _body_lines(sample: StatusSample, view: TopView, size: terminal_size) -> list[TerminalLine]:
    if view.page is TopPage.HELP:
        return [EMPTY_LINE, *(_labelled_line(name, text) for name, text in _KEY_HELP)]
    if sample.document is None:
        return [
            EMPTY_LINE,
            *_wrapped_lines(sample.down_text, size.columns),
            EMPTY_LINE,
            terminal_line("  It is waited for."),
        ]
    return _sections(sample.document, view, size, now=sample.at)


def _wrapped_lines(text: str, columns: int) -> list[TerminalLine]:
    wrapped = (textwrap.wrap(each, max(20, columns - 4)) for each in sanitize(text).splitlines())
    return [terminal_line(f"  {each}") for lines in wrapped for each in lines]


def _sections(
    document: StatusReport, view: TopView, size: terminal_size, *, now: float
) -> list[TerminalLine]:
    """The lower part gets what the upper leaves, and the upper is cut where that is too little."""
    turns = document.snapshot.open_turns
    upper = render_summary(document, columns=size.columns, now=now)
    room = size.lines - 3  # less the head, the foot, and a line between the parts
    opened = view.page is TopPage.DETAILS and turns
    upper = upper[
        : max(0, room - (_MIN_DETAIL_LINES if opened else min(_MIN_TURN_LINES, len(turns) + 1)))
    ]
    chosen = view.selected_index(turns)
    if opened:
        return [*upper, EMPTY_LINE, *_detail_lines(turns[chosen], now)]
    listed = _turn_lines(document.snapshot, now, selected=chosen)
    return [*upper, EMPTY_LINE, *_scroll(listed, room - len(upper), chosen)]


def _turn_lines(
    snapshot: GatewaySnapshot, now: float, *, selected: int | None
) -> list[TerminalLine]:
    if not snapshot.open_turns:
        return [] if selected is None else [terminal_line("  No turn is open.", TerminalStyle.DIM)]
    header, *table = format_turn_table(snapshot.open_turns, now)
    lines = [
        terminal_line(
            text,
            TerminalStyle.SELECTED
            if place == selected
            else _turn_style(snapshot.open_turns[place]),
        )
        for place, text in enumerate(table)
    ]
    more = [terminal_line(f"  … and {snapshot.more_turns} more")] if snapshot.more_turns else []
    return [terminal_line(header, TerminalStyle.DIM), *lines, *more]


def _turn_style(turn: TurnStatus) -> TerminalStyle:
    return TerminalStyle.WARNING if turn.state == "waiting" else TerminalStyle.PLAIN


def _scroll(lines: Sequence[TerminalLine], height: int, selected: int) -> list[TerminalLine]:
    """The header stays; below it are those around the chosen one."""
    header, rest = lines[:1], lines[1:]
    height = max(1, height - 1)
    start = max(0, min(selected - height // 2, len(rest) - height))
    return [*header, *rest[start : start + height]]


def _detail_lines(turn: TurnStatus, now: float) -> list[TerminalLine]:
    since = (
        f"{format_duration(max(0.0, now - turn.started_at))}, since {format_time(turn.started_at)}"
    )
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
    return [_labelled_line(name, sanitize(text)) for name, text in told]


def _labelled_line(name: str, text: str) -> TerminalLine:
    return TerminalSpan(f"  {name:<14}  ", TerminalStyle.DIM), TerminalSpan(text)


def _footer_line(sample: StatusSample, view: TopView, columns: int) -> TerminalLine:
    keys = terminal_line(" q quit  ↑↓ choose  enter details  p pause  ? help", TerminalStyle.DIM)
    if sample.document is None or not sample.turns:
        return keys
    number = len(sample.turns) + sample.document.snapshot.more_turns
    place = terminal_line(
        f"{view.selected_index(sample.turns) + 1} of {number} ", TerminalStyle.DIM
    )
    return justify(keys, place, columns)
