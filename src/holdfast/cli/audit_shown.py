"""A row of the audit as a line for people."""

from collections.abc import Sequence

import click

from holdfast.cli.common.columns import clipped, width
from holdfast.cli.common.harmless import safe
from holdfast.cli.common.output import moment
from holdfast.server.api.views.audit import AuditView

_BAD = ("error", "unknown", "refused", "denied", "cancelled")
_NAMES = ("SEQ", "WHEN", "KIND", "WHO", "WHAT", "OUTCOME")
_MOST = (8, 19, 21, 32, 24, 12)
STEADY = (6, 19, 21, 28, 20, 12)  # for rows that nobody has seen yet
_WORDS = ("arguments", "command", "text", "title", "words", "why", "keys", "change")
_LONGEST = 100  # columns of what was said


Widths = tuple[int, ...]


def fitting(rows: Sequence[AuditView]) -> Widths:
    """How wide each column is to be, so that a terminal is not filled with gaps."""
    columns = zip(_NAMES, *map(_cells, rows), strict=True)
    needed = (max(map(width, column)) for column in columns)
    return tuple(min(most, each) for most, each in zip(_MOST, needed, strict=True))


def head(widths: Widths) -> str:
    return click.style(_columns(_NAMES, widths) + "  MORE", bold=True)


def line(row: AuditView, widths: Widths) -> str:
    color = "red" if row.outcome in _BAD else None
    return click.style(f"{_columns(_cells(row), widths)}  {_more(row)}".rstrip(), fg=color)


def _cells(row: AuditView) -> tuple[str, ...]:
    cells = (str(row.seq), moment(row.at), row.kind, row.actor, row.subject, row.outcome)
    return tuple(map(_flat, cells))


def _columns(cells: tuple[str, ...], widths: Widths) -> str:
    return "  ".join(_padded(cell, room) for cell, room in zip(cells, widths, strict=True))


def _padded(cell: str, room: int) -> str:
    shown = clipped(cell, room)
    return shown + " " * (room - width(shown))


def _more(row: AuditView) -> str:
    """What was said first, and then how it was allowed."""
    said = next((str(row.detail[name]) for name in _WORDS if row.detail.get(name)), "")
    said = "(forgotten with its session)" if row.forgotten else clipped(_flat(said), _LONGEST)
    return "  ".join(filter(None, (said, _flat(_allowed(row)))))


def _allowed(row: AuditView) -> str:
    how, by, scope = (str(row.detail.get(name) or "") for name in ("allowed", "by", "scope"))
    return " ".join(
        filter(None, (how, f"by {by}" if how and by else "", f"({scope})" if scope else ""))
    )


def _flat(text: str) -> str:
    return " ".join(safe(text).split())
