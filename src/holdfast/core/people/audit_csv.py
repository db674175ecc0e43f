"""The audit as CSV: one line a row, harmless to a spreadsheet that opens it."""

import csv
import io
from datetime import UTC, datetime

import msgspec

from holdfast.core.people.audit import AuditRow

_CSV_COLUMNS = (
    "seq",
    "time",
    "kind",
    "actor",
    "session",
    "turn",
    "subject",
    "outcome",
    "detail",
    "forgotten",
    "hash",
)
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def format_csv_row(row: AuditRow) -> str:
    detail = {**row.facts, **(row.words or {})}
    time = datetime.fromtimestamp(row.at, UTC).isoformat(timespec="milliseconds")
    texts = (
        row.kind,
        row.actor,
        row.session_id or "",
        row.turn_id or "",
        row.subject,
        row.outcome,
        msgspec.json.encode(detail).decode() if detail else "",
        "yes" if row.forgotten else "",
        row.hash,
    )
    return _csv_line((str(row.seq), time, *map(_escape_formula, texts)))


def _escape_formula(text: str) -> str:
    """What begins like a formula would be one, and may come from anybody who talks here."""
    return f"'{text}" if text.startswith(_FORMULA_PREFIXES) else text


def _csv_line(cells: tuple[str, ...]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


CSV_HEADER = _csv_line(_CSV_COLUMNS)
