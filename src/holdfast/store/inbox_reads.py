"""What can be asked about messages that were accepted, and how far each stream of them was read."""

from collections.abc import Mapping

import apsw

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.inbox import InboxRow, InboxState
from holdfast.store import rows

# Named, because the planner would rather walk all that was ever accepted than sort a few.
OPEN = "inbox INDEXED BY inbox_open WHERE ended_at IS NULL"


def queued(cursor: apsw.Cursor) -> list[InboxRow]:
    found = cursor.execute(f"SELECT {rows.INBOX} FROM {OPEN} AND state = 'queued' ORDER BY id")
    return [rows.inbox_row(row) for row in found]


def row(cursor: apsw.Cursor, inbox_id: InboxId) -> InboxRow | None:
    row = cursor.execute(f"SELECT {rows.INBOX} FROM inbox WHERE id = ?", (inbox_id,)).fetchone()
    return None if row is None else rows.inbox_row(row)


def ledger(cursor: apsw.Cursor) -> Mapping[InboxState, int]:
    """Every state has a figure; the two halves are counted on the two partial indexes."""
    counts = dict.fromkeys(InboxState, 0)
    for half in ("IS NULL", "IS NOT NULL"):
        for state, count in cursor.execute(
            f"SELECT state, count(*) FROM inbox WHERE ended_at {half} GROUP BY state"
        ):
            counts[InboxState(state)] += count
    for state, count in cursor.execute("SELECT state, count FROM pruned"):
        counts[InboxState(state)] += count
    return counts


def open_messages(cursor: apsw.Cursor, *, before: float) -> Mapping[InboxId, float]:
    found = cursor.execute(f"SELECT id, accepted_at FROM {OPEN} AND accepted_at < ?", (before,))
    return {InboxId(id): accepted_at for id, accepted_at in found}


def of_session(cursor: apsw.Cursor, session_id: SessionId) -> list[InboxId]:
    found = cursor.execute("SELECT id FROM inbox WHERE session_id = ?", (session_id,))
    return [InboxId(row[0]) for row in found]


def cursor_at(cursor: apsw.Cursor, platform: str, account: str, name: str) -> str | None:
    row = cursor.execute(
        "SELECT value FROM cursors WHERE platform = ? AND account = ? AND name = ?",
        (platform, account, name),
    ).fetchone()
    return None if row is None else str(row[0])
