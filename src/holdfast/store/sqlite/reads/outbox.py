"""Queries about deliveries: what is pending, and what became of each."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.ids import DeliveryId, InboxId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.outbox import Address, DeliveryRow, DeliveryState, StartedDelivery
from holdfast.core.ops.status import FailingJob, Failures
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import inbox
from holdfast.store.sqlite.writes import outbox

_MAX_SEQ = 2**62  # past every seq
_PLATFORM = "iif(json_valid(address), address ->> '$.platform', NULL)"  # as the index has it
# The index is named, because the planner would rather walk all deliveries than a partial index.
_NOT_SENT = "outbox INDEXED BY outbox_not_sent WHERE state <> 'sent'"


def deliveries_for_message(cursor: apsw.Cursor, inbox_id: InboxId) -> list[DeliveryRow]:
    """A row that was merged shares the answers of the row, or else the turn, it went into."""
    seen: set[InboxId] = set()
    row = inbox.inbox_row(cursor, inbox_id)
    while row is not None and row.merged_into is not None and row.id not in seen:
        seen.add(row.id)
        row = inbox.inbox_row(cursor, row.merged_into)
    if row is None:
        return []
    if row.state is InboxState.MERGED:
        return _select(cursor, "turn_id = ? AND kind = 'reply'", row.turn_id)
    # Found by the turn, or else by the message: only deliveries without a turn are in its index.
    return _select(
        cursor,
        "turn_id = ?1 AND inbox_id = ?2 OR turn_id IS NULL AND inbox_id = ?2",
        row.turn_id,
        row.id,
    )


def _select(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[DeliveryRow]:
    found = cursor.execute(
        f"SELECT {rows.DELIVERY_COLUMNS} FROM outbox WHERE {which} ORDER BY seq", bindings
    )
    return [rows.decode_delivery(row) for row in found]


def delivery(cursor: apsw.Cursor, delivery_id: DeliveryId) -> DeliveryRow | None:
    return next(iter(_select(cursor, "id = ?", delivery_id)), None)


def deliveries_of_turn(cursor: apsw.Cursor, turn_id: TurnId, *, limit: int) -> list[DeliveryRow]:
    return _select(cursor, "turn_id = ?", turn_id)[:limit]


def list_deliveries(
    cursor: apsw.Cursor,
    *,
    states: Sequence[DeliveryState],
    platform: str,
    before: int | None,
    limit: int,
) -> list[DeliveryRow]:
    """No states: all of them. Those that were not sent are found by their index; those that were
    are nearly all there are, and found by walking back, among those of the platform if one is
    named."""
    which, named = ["seq < ?"], [before or _MAX_SEQ, *(state.value for state in states)]
    table = "outbox"
    if states:
        if DeliveryState.SENT not in states:
            which.insert(0, "state <> 'sent'")
            table = "outbox INDEXED BY outbox_not_sent"
        which.append(f"state IN ({', '.join('?' * len(states))})")
    if platform:
        if table == "outbox":
            table = "outbox INDEXED BY outbox_platform"
        which.append(f"{_PLATFORM} = ?")
        named.append(platform)
    found = cursor.execute(
        f"SELECT {rows.DELIVERY_COLUMNS} FROM {table} WHERE {' AND '.join(which)}"
        " ORDER BY seq DESC LIMIT ?",
        (*named, limit),
    )
    return [rows.decode_delivery(row) for row in found]


def undelivered_rows(cursor: apsw.Cursor) -> list[DeliveryRow]:
    """Deliveries that have their text and are not settled, each with its parts. Streamed deliveries
    belong to their turn."""
    found = _select(cursor, "state <> 'sent' AND state IN ('pending', 'sending', 'unknown')")
    return [msgspec.structs.replace(row, parts=outbox.read_parts(cursor, row.id)) for row in found]


def started_delivery(cursor: apsw.Cursor, turn_id: TurnId) -> StartedDelivery | None:
    """The reply that a turn has begun to stream, with what is known to be shown."""
    found = cursor.execute(
        "SELECT id FROM outbox WHERE turn_id = ? AND state = 'streaming'", (turn_id,)
    ).fetchone()
    if found is None:
        return None
    delivery_id = DeliveryId(str(found[0]))
    return StartedDelivery(id=delivery_id, parts=outbox.read_parts(cursor, delivery_id))


def outbox_counts(cursor: apsw.Cursor) -> Mapping[DeliveryState, int]:
    """The store keeps the number of those that were sent, except for about a thousand of the last;
    the others are few."""
    counts = dict.fromkeys(DeliveryState, 0)
    for state, count in cursor.execute(
        f"SELECT state, count(*) FROM {_NOT_SENT} GROUP BY state"
        " UNION ALL SELECT state, count FROM row_counts WHERE name = 'outbox'"
        " UNION ALL SELECT state, count(*) FROM outbox WHERE state = 'sent'"
        " AND seq > (SELECT last FROM counted WHERE name = 'outbox') GROUP BY state"
    ):
        counts[DeliveryState(state)] += count
    return counts


def failures(cursor: apsw.Cursor, since: float, *, jobs: tuple[FailingJob, ...]) -> Failures:
    """The deliveries that failed since then, together with these jobs."""
    found = cursor.execute(
        f"SELECT count(*), max(updated_at), address, error FROM {_NOT_SENT}"
        " AND state = 'failed' AND updated_at > ?",  # columns beside max() are those of its row
        (since,),
    ).fetchone()
    if found is None or not found[0]:
        return Failures(jobs=jobs)
    address = msgspec.json.decode(str(found[2]), type=Address)
    return Failures(
        jobs=jobs,
        deliveries=int(str(found[0])),
        delivery_chat=f"{address.platform}:{address.chat_id}",
        delivery_error=str(found[3] or ""),
    )
