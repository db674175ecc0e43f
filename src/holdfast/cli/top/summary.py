"""The summary: how a gateway is, in the rows that `status` has, with a chart of the last hour."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import duration
from holdfast.cli.status.status_rows import Row, platform_told, rows
from holdfast.cli.status.status_shown import underway
from holdfast.cli.top.ink import EMPTY, Ink, Line, Piece, fitted, length, line
from holdfast.core.ops.facts import Document, Level, PaceFacts, PlatformFacts

BESIDE = 140  # columns from which on there is room for two rows beside each other

_NAME = 9  # columns of a row's name
_PLATFORMS = 6  # lines of them, where other rows and the turns stand below
_LEFT = 84  # columns of the left one of two
_FIRST = ("turns", "pace")
_THEN = ("messages", "latency", "tokens", "outbox", "jobs", "agents")
_LAST = ("loop", "machine")
_BESIDE = ("address", "model", "commands", "store", "backup")
_BARS = "▁▂▃▄▅▆▇█"
_STATES = {"running": Ink.GOOD, "hanging": Ink.BAD}


def headline(document: Document) -> Line:
    seen = f", seen {duration(document.seen)} ago" if document.seen > 1 else ""
    return (
        Piece(f"holdfast {document.version} is "),
        Piece(document.state, _STATES.get(document.state, Ink.WARNING)),
        Piece(f"{seen} (process {document.pid}, up {duration(document.uptime)})"),
    )


def summary(document: Document, *, columns: int, now: float) -> list[Line]:
    """What is wrong first, then how it is; the least wanted last, for whoever has to cut it."""
    known = list(rows(document, now=now))
    top = [
        *_wrong(document),
        *(line(text, Ink.STRONG) for text in underway(document.snapshot, now)),
    ]
    chart = _chart(document.snapshot.pace)
    first = [*_picked(known, _FIRST), *chart, *_picked(known, _THEN)]
    platforms = list(_platforms(document.snapshot.platforms, now))
    if columns < BESIDE:
        platforms = _at_most(platforms, _PLATFORMS)
        return [*top, *first, *platforms, *_picked(known, _LAST)]
    left = [*first, *_picked(known, _LAST)]
    return [*top, *_beside(left, [*_picked(known, _BESIDE), *platforms], columns)]


def _wrong(document: Document) -> Iterator[Line]:
    for problem in document.problems:
        mark, ink = ("✗", Ink.BAD) if problem.level is Level.PROBLEM else ("!", Ink.WARNING)
        yield line(f"{mark} {safe(problem.what)}", ink)


def _picked(known: Iterable[Row], names: Sequence[str]) -> list[Line]:
    told = dict(known)
    return [_row(name, Piece(told[name])) for name in names if name in told]


def _row(name: str, *value: Piece) -> Line:
    return (Piece(f"  {name.ljust(_NAME)}  ", Ink.FAINT), *value)


def _chart(pace: PaceFacts) -> Iterator[Line]:
    """A bar for each minute; what is nought is a dot, so that one turn is seen among none."""
    if not any(pace.turns):
        return
    most = max(pace.turns)
    bars = "".join(_BARS[-(-turns * 7 // most)] if turns else "·" for turns in pace.turns)
    yield _row("", Piece(bars, Ink.GOOD), Piece(f" {most}", Ink.FAINT))


def _platforms(platforms: Iterable[PlatformFacts], now: float) -> Iterator[Line]:
    """Those that are away first: they are what somebody looks for."""
    ordered = sorted(platforms, key=lambda each: each.connected(now))
    for index, each in enumerate(ordered):
        ink = Ink.GOOD if each.connected(now) else Ink.BAD
        told = Piece(safe(platform_told(each, now)))
        yield _row("platforms" if index == 0 else "", Piece("● ", ink), told)


def _at_most(lines: list[Line], most: int) -> list[Line]:
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], _row("", Piece(f"… and {len(lines) - most + 1} more"))]


def _beside(left: Sequence[Line], right: Sequence[Line], columns: int) -> Iterator[Line]:
    for index in range(max(len(left), len(right))):
        one = fitted(left[index], _LEFT) if index < len(left) else EMPTY
        other = right[index] if index < len(right) else EMPTY
        yield (*one, Piece(" " * (_LEFT + 2 - length(one))), *fitted(other, columns - _LEFT - 2))
