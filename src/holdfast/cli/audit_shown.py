"""A row of the audit as a line for people."""

import click

from holdfast.cli.columns import clipped
from holdfast.cli.harmless import safe
from holdfast.cli.output import moment
from holdfast.control.v1.audit_views import AuditView

_BAD = ("error", "unknown", "refused", "denied", "cancelled")
_WIDTHS = (6, 19, 18, 28, 20, 12)
_WORDS = ("arguments", "command", "text", "title", "words", "why")
_LONGEST = 100  # columns of what was said


def head() -> str:
    names = ("seq", "when", "kind", "who", "what", "outcome")
    return click.style(_columns(names) + "  more", bold=True)


def line(row: AuditView) -> str:
    cells = (str(row.seq), moment(row.at), row.kind, row.actor, row.subject, row.outcome)
    color = "red" if row.outcome in _BAD else None
    return click.style(f"{_columns(cells)}  {_more(row)}".rstrip(), fg=color)


def _columns(cells: tuple[str, ...]) -> str:
    pairs = zip(cells, _WIDTHS, strict=True)
    return "  ".join(clipped(_flat(cell), width).ljust(width) for cell, width in pairs)


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
