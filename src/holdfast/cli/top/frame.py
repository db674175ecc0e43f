"""One screen of `holdfast top`: the last status report, the selected turn and the selected page.

Imports rich: import this module inside functions only.
"""

import io
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from os import terminal_size

import msgspec
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from holdfast.cli.common.language import state_text
from holdfast.cli.common.output import sanitize
from holdfast.cli.common.rendering import INDENT, make_fields
from holdfast.cli.status.command import describe_down, parse_status, status_exit_code
from holdfast.cli.status.rows import Row, more_text, platform_text, status_rows, transition_lines
from holdfast.cli.status.view import headline, problem_lines, status_fields, turn_table
from holdfast.core.errors import HoldfastError
from holdfast.core.messages.source import chat_label
from holdfast.core.ops.status import AccountStatus, HourStats, StatusReport, TurnStatus
from holdfast.core.text.locale_format import format_duration, format_time, format_time_of_day
from holdfast.core.text.translation import N_, _, _n
from holdfast.server.local.status_client import GatewayDown, read_status_report
from holdfast.system import exit_codes
from holdfast.system.paths import Paths

_READ_TIMEOUT = 1.0  # seconds
_PAGE_TURNS = 10
TWO_COLUMN_WIDTH = 140
_LEFT_COLUMN_WIDTH = 84
_MAX_PLATFORM_LINES = 6  # in one column: other rows and the turns follow below
_FIRST_ROWS = (Row.TURNS, Row.LAST_HOUR)
_MIDDLE_ROWS = (Row.MESSAGES, Row.LATENCY, Row.TOKENS, Row.OUTBOX, Row.JOBS, Row.AGENTS)
_LAST_ROWS = (Row.EVENT_LOOP, Row.MACHINE)
_RIGHT_ROWS = (Row.ADDRESS, Row.MODEL, Row.SANDBOX, Row.STORE, Row.BACKUP)
_CHART_BARS = "▁▂▃▄▅▆▇█"
# The lower part has at least this many lines, if it has as many to show.
_MIN_TURN_LINES, _MIN_DETAIL_LINES = 5, 8

Line = list[Segment]


class StatusSample(msgspec.Struct, frozen=True, kw_only=True):
    """One status report. `document` None: no gateway answers, and `down_text` says why."""

    at: float
    document: StatusReport | None = None
    down_text: str = ""
    exit_code: int = exit_codes.OK  # of `top --once`

    @property
    def turns(self) -> tuple[TurnStatus, ...]:
        return () if self.document is None else self.document.snapshot.open_turns


def read_sample(paths: Paths, *, now: float) -> StatusSample:
    """Never raises for a gateway that is down or of another version: the next sample may find
    another one."""
    try:
        document = parse_status(read_status_report(paths, timeout=_READ_TIMEOUT))
    except GatewayDown as down:
        return StatusSample(
            at=now, down_text=describe_down(paths, down), exit_code=exit_codes.GATEWAY_DOWN
        )
    except HoldfastError as error:
        return StatusSample(at=now, down_text=error.for_person(), exit_code=exit_codes.FAILED)
    return StatusSample(at=now, document=document, exit_code=status_exit_code(document))


class TopPage(StrEnum):
    TURNS = "turns"
    DETAILS = "details"  # of the selected turn
    HELP = "help"


class TopView(msgspec.Struct, frozen=True, kw_only=True):
    """What the user has selected. The turn is selected by id, because the list changes; its index
    is used after it has ended."""

    page: TopPage = TopPage.TURNS
    paused: bool = False
    turn: str = ""
    index: int = 0

    def selected_index(self, turns: Sequence[TurnStatus]) -> int:
        """The index of the selected turn, or of the turn that took its place."""
        for index, turn in enumerate(turns):
            if turn.turn == self.turn:
                return index
        return max(0, min(self.index, len(turns) - 1))


class TopKey(msgspec.Struct, frozen=True, kw_only=True):
    """Keys with the same meaning, as prompt_toolkit names them."""

    keys: tuple[str, ...]
    step: int = 0  # moves the selection by this many turns


UP = TopKey(keys=("up", "k", "c-p"), step=-1)
DOWN = TopKey(keys=("down", "j", "c-n"), step=1)
PAGE_UP = TopKey(keys=("pageup", "c-b"), step=-_PAGE_TURNS)
PAGE_DOWN = TopKey(keys=("pagedown", "c-f"), step=_PAGE_TURNS)
FIRST = TopKey(keys=("home", "g"), step=-(2**31))
LAST = TopKey(keys=("end", "G"), step=2**31)
OPEN = TopKey(keys=("enter",))
BACK = TopKey(keys=("escape", "backspace"))
PAUSE = TopKey(keys=("p", "P"))
HELP = TopKey(keys=("?", "h"))
VIEW_KEYS = (UP, DOWN, PAGE_UP, PAGE_DOWN, FIRST, LAST, OPEN, BACK, PAUSE, HELP)
REFRESH_KEYS = (" ", "r")
QUIT_KEYS = ("q", "Q", "c-c", "c-d", "<sigint>")
_KEY_HELP = (
    (N_("up, down, j, k"), N_("select a turn; page up, page down, g and G move further")),
    (N_("enter"), N_("show the details of the selected turn; again, or escape: back")),
    ("p", N_("pause; again: continue")),
    (N_("space"), N_("refresh now")),
    (N_("? or h"), N_("show or hide this help")),
    ("q", N_("quit")),
)


def apply_key(view: TopView, key: TopKey, turns: Sequence[TurnStatus]) -> TopView:
    if key.step:
        return _select_turn(view, turns, view.selected_index(turns) + key.step)
    if key is PAUSE:
        return msgspec.structs.replace(view, paused=not view.paused)
    if key is HELP:
        return _toggle_page(view, TopPage.HELP)
    if key is OPEN and turns and view.page is not TopPage.HELP:
        selected = _select_turn(view, turns, view.selected_index(turns))
        return _toggle_page(selected, TopPage.DETAILS)
    return msgspec.structs.replace(view, page=TopPage.TURNS)


def _select_turn(view: TopView, turns: Sequence[TurnStatus], index: int) -> TopView:
    index = max(0, min(index, len(turns) - 1))
    turn = turns[index].turn if turns else ""
    return msgspec.structs.replace(view, turn=turn, index=index)


def _toggle_page(view: TopView, page: TopPage) -> TopView:
    """The same key opens and closes a page."""
    return msgspec.structs.replace(view, page=TopPage.TURNS if view.page is page else page)


class FrameRenderer:
    """Renders screens of one size."""

    def __init__(self, size: terminal_size) -> None:
        self._size = size
        self._out = io.StringIO()
        self._console = Console(
            file=self._out,
            width=size.columns,
            height=size.lines,
            force_terminal=True,
            color_system="standard",
            markup=False,
            emoji=False,
            highlight=False,
        )

    def ansi(self, sample: StatusSample, view: TopView) -> str:
        """The screen as text with escape sequences."""
        lines = self.lines(sample, view)
        self._console.print(Segments([seg for line in lines for seg in (*line, Segment.line())]))
        return self._out.getvalue().removesuffix("\n")

    def lines(self, sample: StatusSample, view: TopView) -> list[Line]:
        """Exactly as many lines as the screen has, none wider than the screen."""
        shown = [*self._render(_header(sample, view)), *self._body(sample, view)]
        room = max(1, self._size.lines - 1)
        shown = shown[:room] + [[] for _line in range(room - len(shown))]
        return [*shown, *self._render(_footer(sample, view))][-self._size.lines :]

    def _render(self, renderable: RenderableType) -> list[Line]:
        return self._console.render_lines(renderable, pad=False)

    def _body(self, sample: StatusSample, view: TopView) -> list[Line]:
        if view.page is TopPage.HELP:
            return self._render(
                Group("", make_fields((_(keys), Text(_(text))) for keys, text in _KEY_HELP))
            )
        if sample.document is None:
            why = Padding(Text(sanitize(sample.down_text)), INDENT)
            return self._render(Group("", why, "", f"  {_('Waiting for the gateway.')}"))
        return self._sections(sample.document, view, now=sample.at)

    def _sections(self, document: StatusReport, view: TopView, *, now: float) -> list[Line]:
        """The lower part gets the rest of the screen; the upper part is cut if that is too
        little."""
        turns = document.snapshot.open_turns
        upper = self._render(_summary(document, columns=self._size.columns, now=now))
        room = self._size.lines - 3  # without header, footer and the line between the parts
        opened = view.page is TopPage.DETAILS and turns
        needed = _MIN_DETAIL_LINES if opened else min(_MIN_TURN_LINES, len(turns) + 1)
        upper = upper[: max(0, room - needed)]
        selected = view.selected_index(turns)
        if opened:
            return [*upper, [], *self._render(_details(turns[selected], now))]
        listed = self._render(_turn_list(document, now, selected=selected))
        return [*upper, [], *_scroll(listed, room - len(upper), selected)]


def render_plain(sample: StatusSample) -> RenderableType:
    """For output that is not a live screen: nothing is truncated, and every turn is listed."""
    document = sample.document
    if document is None:
        return Text(sample.down_text)
    parts = [headline(document), _summary(document, columns=0, now=sample.at)]
    if document.snapshot.open_turns:
        parts += ["", _turn_list(document, sample.at, selected=None)]
    return Group(*parts)


def _summary(document: StatusReport, *, columns: int, now: float) -> RenderableType:
    """Problems first, the least important rows last: a small screen cuts at the end."""
    snapshot = document.snapshot
    texts = {row: _value(text, columns) for row, text in status_rows(document, now=now)}

    def select(*names: Row) -> list[tuple[Row, Text]]:
        return [(row, texts[row]) for row in names if row in texts]

    transitions = (Text(f"  {text}", "bold") for text in transition_lines(snapshot, now))
    top = [*map(_one_line, problem_lines(document)), *map(_one_line, transitions)]
    chart = [(Row.LAST_HOUR, each) for each in _chart(snapshot.last_hour)]
    first = [*select(*_FIRST_ROWS), *chart, *select(*_MIDDLE_ROWS)]
    platforms = [(Row.PLATFORMS, each) for each in _platforms(snapshot.platforms, columns, now)]
    last = select(*_LAST_ROWS)
    if columns < TWO_COLUMN_WIDTH:
        if len(platforms) > _MAX_PLATFORM_LINES:
            more = more_text(len(platforms) - _MAX_PLATFORM_LINES + 1)
            platforms = [*platforms[: _MAX_PLATFORM_LINES - 1], (Row.PLATFORMS, Text(more))]
        return Group(*top, status_fields([*first, *platforms, *last]))
    both = Table.grid(padding=(0, 2))
    both.add_column(width=_LEFT_COLUMN_WIDTH)
    both.add_row(status_fields([*first, *last]), status_fields([*select(*_RIGHT_ROWS), *platforms]))
    return Group(*top, both)


def _value(text: str, columns: int) -> Text:
    return _one_line(Text(text)) if columns else Text(text)


def _one_line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _chart(last_hour: HourStats) -> Iterator[Text]:
    """A bar for each minute; zero is a dot, so that a single turn can be seen."""
    if any(last_hour.turns):
        most = max(last_hour.turns)
        bars = "".join(
            _CHART_BARS[-(-turns * 7 // most)] if turns else "·" for turns in last_hour.turns
        )
        yield _one_line(Text.assemble((bars, "green"), (f" {most}", "dim")))


def _platforms(platforms: Iterable[AccountStatus], columns: int, now: float) -> Iterator[Text]:
    """Accounts that are not connected first: they need attention."""
    for each in sorted(platforms, key=lambda each: each.connected(now)):
        style = "green" if each.connected(now) else "red"
        text = _value(sanitize(platform_text(each, now)), columns)
        yield (
            _one_line(Text.assemble(("● ", style), text))
            if columns
            else Text.assemble(("● ", style), text)
        )


def _turn_list(document: StatusReport, now: float, *, selected: int | None) -> RenderableType:
    snapshot = document.snapshot
    if not snapshot.open_turns:
        return Text(f"  {_('No turn is open.')}", "dim")
    table = turn_table(snapshot.open_turns, now)
    for index, (row, turn) in enumerate(zip(table.rows, snapshot.open_turns, strict=True)):
        row.style = "reverse" if index == selected else "yellow" if turn.state == "waiting" else ""
    if selected is not None:
        # The selected line is highlighted to the edge of the terminal.
        table.expand, table.columns[-1].ratio = True, 1
    more = [f"  {more_text(snapshot.more_turns)}"] if snapshot.more_turns else []
    return Group(Padding(table, INDENT), *more)


def _scroll(lines: Sequence[Line], height: int, selected: int) -> list[Line]:
    """The header stays; below it are the lines around the selected one."""
    header, rest = lines[:1], lines[1:]
    height = max(1, height - 1)
    start = max(0, min(selected - height // 2, len(rest) - height))
    return [*header, *rest[start : start + height]]


def _details(turn: TurnStatus, now: float) -> RenderableType:
    state = _("{state} for {duration}, since {time}").format(
        state=state_text(turn.state),
        duration=format_duration(max(0.0, now - turn.started_at)),
        time=format_time(turn.started_at),
    )
    queued = _n("{n} message", "{n} messages", turn.queued).format(n=turn.queued)
    fields = [
        (_("turn"), turn.turn),
        (_("session"), turn.session),
        (_("where"), f"{turn.platform} {chat_label(turn.platform, turn.chat)}".rstrip()),
        (_("state"), state),
        (_("step"), str(turn.step)),
        (_("tools"), ", ".join(turn.tools) or _("none")),
        (_("queued"), queued if turn.queued else _("none")),
        (_("follow"), f"holdfast sessions follow {turn.session}"),
    ]
    return make_fields((name, _one_line(Text(sanitize(text)))) for name, text in fields)


def _header(sample: StatusSample, view: TopView) -> RenderableType:
    clock = Text(format_time_of_day(sample.at), "dim")
    right = Text(f" {_('PAUSED')} ", "reverse") if view.paused else clock
    if sample.document is None:
        return _both_ends(Text(_("The gateway does not answer"), "red"), right)
    return _both_ends(headline(sample.document), right)


def _footer(sample: StatusSample, view: TopView) -> RenderableType:
    keys = Text(f" {_('q quit  ↑↓ select  enter details  p pause  ? help')}", "dim")
    if sample.document is None or not sample.turns:
        return _one_line(keys)
    text = _("{index} of {number}").format(
        index=view.selected_index(sample.turns) + 1,
        number=len(sample.turns) + sample.document.snapshot.more_turns,
    )
    return _both_ends(keys, Text(f"{text} ", "dim"))


def _both_ends(left: Text, right: Text) -> RenderableType:
    """One text at each end of a line; if both do not fit, the left one is truncated."""
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    grid.add_row(_one_line(left), _one_line(right))
    return grid
