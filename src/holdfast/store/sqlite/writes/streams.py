"""Streams: deliveries that are begun before their text is there, and the parts of a delivery."""

from collections.abc import Sequence
from typing import Any

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.outbox import DeliveryPart, NewDelivery
from holdfast.store.sqlite import outbox_rows, rows


def begin_stream(cursor: apsw.Cursor, *, new: NewDelivery, at: float) -> None:
    """Its turn is open: one that has ended, or was never begun, has nothing more to show."""
    cursor.execute(
        "INSERT INTO outbox (id, address, kind, session_id, turn_id, state, created_at, updated_at)"
        " SELECT ?1, ?2, ?3, ?4, ?5, 'streaming', ?6, ?6"
        " WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?5 AND state = 'open')",
        (new.id, rows.encode_json(new.address), new.kind.value, new.session_id, new.turn_id, at),
    )
    if not cursor.connection.changes():
        raise StoreError(f"turn {new.turn_id} is not open: nothing of it is shown")


def complete_stream(cursor: apsw.Cursor, new: NewDelivery, *, at: float) -> bool:
    """The text that a delivery was begun for; False: the store did not take its beginning."""
    cursor.execute(
        "UPDATE outbox SET kind = ?2, text = ?3, inbox_id = ?4, state = ?5, error = ?6,"
        " updated_at = ?7 WHERE id = ?1 AND state = 'streaming'",
        (new.id, new.kind.value, new.text, new.inbox_id, new.state.value, new.error, at),
    )
    return bool(cursor.connection.changes())


def begin_part(cursor: apsw.Cursor, *, delivery_id: DeliveryId, number: int, at: float) -> None:
    """An attempt that follows one without an outcome may be the second to arrive."""
    cursor.execute(
        "INSERT INTO parts (delivery_id, number, session_id, state, updated_at)"
        " SELECT id, ?2, session_id, 'sending', ?3 FROM outbox WHERE id = ?1"
        " ON CONFLICT DO UPDATE SET state = 'sending', updated_at = ?3,"
        " resends = resends + (doubtful OR state <> 'pending'),"
        " doubtful = doubtful OR state <> 'pending'",
        (delivery_id, number, at),
    )
    _require_delivery(cursor, delivery_id)


def settle_part(
    cursor: apsw.Cursor, *, delivery_id: DeliveryId, part: DeliveryPart, error: str, at: float
) -> None:
    """Settled as pending, the attempt took nothing to the platform: it was no resend."""
    cursor.execute(
        "UPDATE parts SET state = ?3, error = ?4, updated_at = ?5, final = ?6,"
        " platform_message_id = coalesce(?7, platform_message_id),"
        " resends = resends - (?3 = 'pending' AND state = 'sending' AND resends > 0),"
        " doubtful = doubtful OR ?3 = 'unknown'"
        " WHERE delivery_id = ?1 AND number = ?2",
        (
            delivery_id,
            part.number,
            part.state.value,
            error,
            at,
            part.final,
            part.platform_message_id,
        ),
    )
    _require_delivery(cursor, delivery_id)


def read_parts(cursor: apsw.Cursor, delivery_id: DeliveryId) -> tuple[DeliveryPart, ...]:
    found = cursor.execute(
        "SELECT number, state, final, doubtful, resends, platform_message_id FROM parts"
        " WHERE delivery_id = ? ORDER BY number",
        (delivery_id,),
    )
    return tuple(outbox_rows.decode_part(row) for row in found)


def delete_parts(cursor: apsw.Cursor, gone: Sequence[Any]) -> None:
    """The parts of deliveries, by their ids, that have gone from the outbox."""
    cursor.executemany("DELETE FROM parts WHERE delivery_id = ?", gone)


def detach_parts(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """The parts of what has gone from the outbox go too; those under way are somebody's."""
    cursor.execute(
        "DELETE FROM parts WHERE session_id = ? AND delivery_id NOT IN (SELECT id FROM outbox)",
        (session_id,),
    )
    cursor.execute("UPDATE parts SET session_id = NULL WHERE session_id = ?", (session_id,))


def _require_delivery(cursor: apsw.Cursor, delivery_id: DeliveryId) -> None:
    if not cursor.connection.changes():
        raise StoreError(f"there is no delivery {delivery_id} that a part could belong to")
