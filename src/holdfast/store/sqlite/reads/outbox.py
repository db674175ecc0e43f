"""What can be asked about deliveries: what is owed, and what became of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.ids import DeliveryId, InboxId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import Begun, DeliveryRow, DeliveryState
from holdfast.store.sqlite import outbox_rows
from holdfast.store.sqlite.reads import inbox
from holdfast.store.sqlite.writes import streams

_BEYOND = 2**62  # past every seq


def answers(cursor: apsw.Cursor, inbox_id: InboxId) -> list[DeliveryRow]:
    """A row that was merged shares the answers of the row, or else the turn, it went into."""
    seen: set[InboxId] = set()
    row = inbox.row(cursor, inbox_id)
    while row is not None and row.merged_into is not None and row.id not in seen:
        seen.add(row.id)
        row = inbox.row(cursor, row.merged_into)
    if row is None:
        return []
    if row.state is InboxState.MERGED:
        return _deliveries(cursor, "turn_id = ? AND kind = 'reply'", row.turn_id)
    return _deliveries(cursor, "inbox_id = ?", row.id)


def _deliveries(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[DeliveryRow]:
    found = cursor.execute(
        f"SELECT {outbox_rows.DELIVERY} FROM outbox WHERE {which} ORDER BY seq", bindings
    )
    return [outbox_rows.delivery_row(row) for row in found]


def delivery(cursor: apsw.Cursor, delivery_id: DeliveryId) -> DeliveryRow | None:
    return next(iter(_deliveries(cursor, "id = ?", delivery_id)), None)


def of_turn(cursor: apsw.Cursor, turn_id: TurnId, *, limit: int) -> list[DeliveryRow]:
    return _deliveries(cursor, "turn_id = ?", turn_id)[:limit]


def listed(
    cursor: apsw.Cursor,
    *,
    states: Sequence[DeliveryState],
    platform: str,
    before: int | None,
    limit: int,
) -> list[DeliveryRow]:
    """No states: all of them. Those of one state are found by its index, whatever was sent."""
    which, named = ["seq < ?"], [before or _BEYOND, *(state.value for state in states)]
    if states:
        which.append(f"state IN ({', '.join('?' * len(states))})")
    if platform:
        which.append("json_extract(address, '$.platform') = ?")
        named.append(platform)
    found = cursor.execute(
        f"SELECT {outbox_rows.DELIVERY} FROM outbox WHERE {' AND '.join(which)}"
        " ORDER BY seq DESC LIMIT ?",
        (*named, limit),
    )
    return [outbox_rows.delivery_row(row) for row in found]


def undelivered(cursor: apsw.Cursor) -> list[DeliveryRow]:
    """What has its text and is not settled, each with its parts. A stream is its turn's."""
    found = _deliveries(cursor, "state IN ('pending', 'sending', 'unknown')")
    return [msgspec.structs.replace(row, parts=streams.read(cursor, row.id)) for row in found]


def begun(cursor: apsw.Cursor, turn_id: TurnId) -> Begun | None:
    """The reply that a turn has begun to show, as far as it is known what was shown."""
    found = cursor.execute(
        "SELECT id FROM outbox WHERE turn_id = ? AND state = 'streaming'", (turn_id,)
    ).fetchone()
    if found is None:
        return None
    delivery_id = DeliveryId(str(found[0]))
    return Begun(id=delivery_id, parts=streams.read(cursor, delivery_id))


def ledger(cursor: apsw.Cursor) -> Mapping[DeliveryState, int]:
    counts = dict.fromkeys(DeliveryState, 0)
    for state, count in cursor.execute("SELECT state, count(*) FROM outbox GROUP BY state"):
        counts[DeliveryState(state)] = count
    return counts
