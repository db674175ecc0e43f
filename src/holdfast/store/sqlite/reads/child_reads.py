"""What can be asked about children: whose they are, which are at work, what they used."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.subagent import HOUSE, Child
from holdfast.core.turns.turn import Usage
from holdfast.store.sqlite import rows

_DESCENDANTS = (
    "WITH RECURSIVE below (id) AS (SELECT session_id FROM children WHERE parent_id = ?"
    " UNION SELECT c.session_id FROM children c JOIN below ON c.parent_id = below.id)"
)
_TOTAL = ", ".join(f"coalesce(sum({column}), 0)" for column in rows.USAGE.split(", "))


def child(cursor: apsw.Cursor, session_id: SessionId) -> Child | None:
    found = cursor.execute(
        "SELECT body FROM children WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if found is None else rows.child(str(found[0]))


def descendants(cursor: apsw.Cursor, session_id: SessionId) -> list[Child]:
    found = cursor.execute(
        f"{_DESCENDANTS} SELECT body FROM children JOIN below ON session_id = below.id"
        " ORDER BY created_at, session_id",
        (session_id,),
    )
    return [rows.child(str(row[0])) for row in found]


def descendants_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """Of their turns that have ended, and of what was done beside those."""
    whole = Usage()
    for table in ("turns", "auxiliary"):
        (total,) = cursor.execute(
            f"{_DESCENDANTS} SELECT {_TOTAL} FROM {table} WHERE session_id IN below", (session_id,)
        ).fetchall()
        whole = whole + rows.usage(total)
    return whole


def at_work(cursor: apsw.Cursor) -> list[tuple[InboxRow, bool]]:
    """Children whose work has not ended, and whether anybody still wants it."""
    found = cursor.execute(
        f"SELECT {rows.INBOX} FROM inbox INDEXED BY inbox_open"
        " WHERE ended_at IS NULL AND platform = ? ORDER BY id",
        (HOUSE,),
    ).fetchall()
    listed = [rows.inbox_row(row) for row in found]
    return [(row, _wanted(cursor, row.inbound.child)) for row in listed]


def _wanted(cursor: apsw.Cursor, child: Child | None) -> bool:
    """By the turn that waits for it, else by the conversation that its reply goes to."""
    if child is None:
        return False
    if child.turn_id is not None:
        query = "SELECT 1 FROM turns WHERE id = ? AND state = 'open'"
        return cursor.execute(query, (child.turn_id,)).fetchone() is not None
    query = "SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NULL"
    return cursor.execute(query, (child.parent,)).fetchone() is not None
