"""What can be asked about children: whose they are, which are at work, what they used."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, Subagent
from holdfast.core.turns.turn import Usage
from holdfast.store.sqlite import rows

_SUBAGENTS_BELOW = (
    "WITH RECURSIVE below (id) AS (SELECT session_id FROM children WHERE parent_id = ?"
    " UNION SELECT c.session_id FROM children c JOIN below ON c.parent_id = below.id)"
)
_SUBAGENT_USAGE_TOTALS = ", ".join(
    f"coalesce(sum({column}), 0)" for column in rows.USAGE_COLUMNS.split(", ")
)


def subagent(cursor: apsw.Cursor, session_id: SessionId) -> Subagent | None:
    found = cursor.execute(
        "SELECT body FROM children WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if found is None else rows.decode_subagent(str(found[0]))


def subagents_below(cursor: apsw.Cursor, session_id: SessionId) -> list[Subagent]:
    found = cursor.execute(
        f"{_SUBAGENTS_BELOW} SELECT body FROM children JOIN below ON session_id = below.id"
        " ORDER BY created_at, session_id",
        (session_id,),
    )
    return [rows.decode_subagent(str(row[0])) for row in found]


def subagents_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """Of their turns that have ended, and of what was done beside those."""
    whole = Usage()
    for table in ("turns", "auxiliary"):
        (total,) = cursor.execute(
            f"{_SUBAGENTS_BELOW} SELECT {_SUBAGENT_USAGE_TOTALS} FROM {table} WHERE session_id IN below",
            (session_id,),
        ).fetchall()
        whole = whole + rows.decode_usage(total)
    return whole


def running_subagents(cursor: apsw.Cursor) -> list[tuple[InboxRow, bool]]:
    """Children whose work has not ended, and whether anybody still wants it."""
    found = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM inbox INDEXED BY inbox_open"
        " WHERE ended_at IS NULL AND platform = ? ORDER BY id",
        (INTERNAL_PLATFORM,),
    ).fetchall()
    listed = [rows.decode_inbox_row(row) for row in found]
    return [(row, _is_awaited(cursor, row.inbound.subagent)) for row in listed]


def _is_awaited(cursor: apsw.Cursor, child: Subagent | None) -> bool:
    """By the turn that waits for it, else by the conversation that its reply goes to."""
    if child is None:
        return False
    if child.turn_id is not None:
        query = "SELECT 1 FROM turns WHERE id = ? AND state = 'open'"
        return cursor.execute(query, (child.turn_id,)).fetchone() is not None
    query = "SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NULL"
    return cursor.execute(query, (child.parent,)).fetchone() is not None
