"""Queries about accepted messages, and the cursor up to which each stream of them was read."""

from collections.abc import Mapping

import apsw
import msgspec

from holdfast.core.ids import InboxId
from holdfast.core.messages.inbox import OPEN_STATES, InboxRow, InboxState, InboxSummary
from holdfast.store.sqlite import rows

# Named, because the planner would rather walk all that was ever accepted than sort a few.
OPEN_ROWS = "inbox INDEXED BY inbox_open WHERE ended_at IS NULL"

_PREVIEW = 300  # characters of what was said
_SUMMARY_FIELDS = InboxSummary.__struct_fields__
_SUMMARY_COLUMNS = ", ".join(
    f"substr(json_extract(body, '$.text'), 1, {_PREVIEW})" if field == "text" else field
    for field in _SUMMARY_FIELDS
)


def queued_messages(cursor: apsw.Cursor) -> list[InboxRow]:
    found = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM {OPEN_ROWS} AND state = 'queued' ORDER BY id"
    )
    return [rows.decode_inbox_row(row) for row in found]


def list_messages(
    cursor: apsw.Cursor, *, state: InboxState | None, offset: int, limit: int
) -> list[InboxSummary]:
    """By the two partial indexes: of the open ones there are few, of the ended ones only those of
    one state are asked for. Answered ones are in neither: they are nearly all there are, and found
    by walking back."""
    if state is None or state in OPEN_STATES:
        which = f"{OPEN_ROWS} AND (?1 IS NULL OR state = ?1) ORDER BY id DESC"
    elif state is InboxState.ANSWERED:
        which = "inbox WHERE state = ?1 ORDER BY id DESC"
    else:
        which = (
            "inbox INDEXED BY inbox_ended WHERE state = ?1 AND ended_at IS NOT NULL"
            " AND state <> 'answered' ORDER BY ended_at DESC, id DESC"
        )
    found = cursor.execute(
        f"SELECT {_SUMMARY_COLUMNS} FROM {which} LIMIT ?2 OFFSET ?3", (state, limit, offset)
    )
    return [
        msgspec.convert(dict(zip(_SUMMARY_FIELDS, row, strict=True)), InboxSummary) for row in found
    ]


def inbox_row(cursor: apsw.Cursor, inbox_id: InboxId) -> InboxRow | None:
    row = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM inbox WHERE id = ?", (inbox_id,)
    ).fetchone()
    return None if row is None else rows.decode_inbox_row(row)


def inbox_counts(cursor: apsw.Cursor) -> Mapping[InboxState, int]:
    """The number of messages in each state. Open ones are counted by their partial index. For ended
    ones, the store keeps totals, which also contain pruned messages, except for about the last
    thousand."""
    counts = dict.fromkeys(InboxState, 0)
    for state, count in cursor.execute(
        f"SELECT state, count(*) FROM {OPEN_ROWS} GROUP BY state"
        " UNION ALL SELECT state, count FROM row_counts WHERE name = 'inbox'"
        " UNION ALL SELECT state, count(*) FROM inbox WHERE ended_at IS NOT NULL"
        " AND id > (SELECT last FROM counted WHERE name = 'inbox') GROUP BY state"
        " UNION ALL SELECT state, count FROM pruned"
    ):
        counts[InboxState(state)] += count
    return counts


def open_messages(cursor: apsw.Cursor, *, before: float) -> Mapping[InboxId, float]:
    found = cursor.execute(
        f"SELECT id, accepted_at FROM {OPEN_ROWS} AND accepted_at < ?", (before,)
    )
    return {InboxId(id): accepted_at for id, accepted_at in found}


def stream_cursor(cursor: apsw.Cursor, platform: str, account: str, name: str) -> str | None:
    row = cursor.execute(
        "SELECT value FROM cursors WHERE platform = ? AND account = ? AND name = ?",
        (platform, account, name),
    ).fetchone()
    return None if row is None else str(row[0])
