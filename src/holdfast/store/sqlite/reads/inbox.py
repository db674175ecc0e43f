"""What can be asked about messages that were accepted, and how far each stream of them was read."""

from collections.abc import Mapping

import apsw
import msgspec

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.inbox import OPEN as OPEN_STATES
from holdfast.core.messages.inbox import InboxGist, InboxRow, InboxState
from holdfast.store.sqlite import rows

# Named, because the planner would rather walk all that was ever accepted than sort a few.
OPEN = "inbox INDEXED BY inbox_open WHERE ended_at IS NULL"

_SHOWN = 300  # characters of what was said
_FIELDS = InboxGist.__struct_fields__
_GIST = ", ".join(
    f"substr(json_extract(body, '$.text'), 1, {_SHOWN})" if field == "text" else field
    for field in _FIELDS
)


def queued(cursor: apsw.Cursor) -> list[InboxRow]:
    found = cursor.execute(f"SELECT {rows.INBOX} FROM {OPEN} AND state = 'queued' ORDER BY id")
    return [rows.inbox_row(row) for row in found]


def listed(
    cursor: apsw.Cursor, *, state: InboxState | None, offset: int, limit: int
) -> list[InboxGist]:
    """By the two partial indexes: of the open ones there are few, of the ended ones only those of
    one state are asked for."""
    if state is None or state in OPEN_STATES:
        which = f"{OPEN} AND (?1 IS NULL OR state = ?1) ORDER BY id DESC"
    else:
        which = (
            "inbox INDEXED BY inbox_ended WHERE state = ?1 AND ended_at IS NOT NULL"
            " ORDER BY ended_at DESC, id DESC"
        )
    found = cursor.execute(
        f"SELECT {_GIST} FROM {which} LIMIT ?2 OFFSET ?3", (state, limit, offset)
    )
    return [msgspec.convert(dict(zip(_FIELDS, row, strict=True)), InboxGist) for row in found]


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
