"""A row of the audit as a line for people."""

from collections.abc import Sequence

import click

from holdfast.cli.common.columns import display_width, truncate
from holdfast.cli.common.harmless import sanitize
from holdfast.cli.common.output import format_time
from holdfast.server.api.views.audit import AuditView

_FAILED_OUTCOMES = ("error", "unknown", "refused", "denied", "cancelled")
_HEADERS = ("SEQ", "WHEN", "KIND", "WHO", "WHAT", "OUTCOME")
_MAX_WIDTHS = (8, 19, 21, 32, 24, 12)
FOLLOW_WIDTHS = (6, 19, 21, 28, 20, 12)  # for rows that nobody has seen yet
_TEXT_FIELDS = ("arguments", "command", "text", "title", "words", "why", "keys", "change")
_MAX_DETAIL_WIDTH = 100  # columns of what was said


ColumnWidths = tuple[int, ...]


def fit_widths(rows: Sequence[AuditView]) -> ColumnWidths:
    """How wide each column is to be, so that a terminal is not filled with gaps."""
    columns = zip(_HEADERS, *map(_row_cells, rows), strict=True)
    needed = (max(map(display_width, column)) for column in columns)
    return tuple(min(most, each) for most, each in zip(_MAX_WIDTHS, needed, strict=True))


def format_header(widths: ColumnWidths) -> str:
    return click.style(_join_columns(_HEADERS, widths) + "  MORE", bold=True)


def format_row(row: AuditView, widths: ColumnWidths) -> str:
    color = "red" if row.outcome in _FAILED_OUTCOMES else None
    return click.style(
        f"{_join_columns(_row_cells(row), widths)}  {_detail_text(row)}".rstrip(), fg=color
    )


def _row_cells(row: AuditView) -> tuple[str, ...]:
    cells = (str(row.seq), format_time(row.at), row.kind, row.actor, row.subject, row.outcome)
    return tuple(map(_single_line, cells))


def _join_columns(cells: tuple[str, ...], widths: ColumnWidths) -> str:
    return "  ".join(_pad_cell(cell, room) for cell, room in zip(cells, widths, strict=True))


def _pad_cell(cell: str, columns: int) -> str:
    shown = truncate(cell, columns)
    return shown + " " * (columns - display_width(shown))


def _detail_text(row: AuditView) -> str:
    """What was said first, and then how it was allowed."""
    said = next((str(row.detail[name]) for name in _TEXT_FIELDS if row.detail.get(name)), "")
    said = (
        "(forgotten with its session)"
        if row.texts_deleted
        else truncate(_single_line(said), _MAX_DETAIL_WIDTH)
    )
    return "  ".join(filter(None, (said, _single_line(_permission_text(row)))))


def _permission_text(row: AuditView) -> str:
    how, by, scope = (str(row.detail.get(name) or "") for name in ("allowed", "by", "scope"))
    return " ".join(
        filter(None, (how, f"by {by}" if how and by else "", f"({scope})" if scope else ""))
    )


def _single_line(text: str) -> str:
    return " ".join(sanitize(text).split())
