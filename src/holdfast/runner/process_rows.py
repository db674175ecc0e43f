"""Process rows: the runner's records of background processes in the store's words."""

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import ProcessRow


def to_process_rows(session_id: SessionId, records: Sequence[dict[str, Any]]) -> list[ProcessRow]:
    """A record that a command wrote over is left out."""
    rows = []
    for record in records:
        with contextlib.suppress(msgspec.ValidationError):
            rows.append(msgspec.convert({**record, "session_id": session_id}, ProcessRow))
    return rows


def mark_lost(row: ProcessRow, now: float) -> ProcessRow:
    """What ran when its runner died has ended, and nobody knows how."""
    if row.ended_at is not None:
        return row
    return msgspec.structs.replace(row, ended_at=now, note="lost: its sandbox ended under it")
