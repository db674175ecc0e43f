"""The outbox: what is owed to a platform, its attempts and its end."""

from collections.abc import Iterable

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId
from holdfast.core.messages.outbox import DeliveryRow, DeliveryState, NewDelivery
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.store.sqlite import outbox_rows, rows
from holdfast.store.sqlite.writes import audit, streams


def add_deliveries(cursor: apsw.Cursor, deliveries: Iterable[NewDelivery], *, at: float) -> None:
    for new in deliveries:
        if new.started is not None and streams.complete_stream(cursor, new, at=at):
            continue
        cursor.execute(
            "INSERT INTO outbox (id, address, kind, text, session_id, turn_id, inbox_id,"
            " state, expires_at, choices, file, created_at, updated_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?11, ?12, ?10, ?10)",
            (
                new.id,
                rows.encode_json(new.address),
                new.kind.value,
                new.text,
                new.session_id,
                new.turn_id,
                new.inbox_id,
                new.state.value,
                new.expires_at,
                at,
                rows.encode_json(new.buttons) if new.buttons else None,
                None if new.file is None else rows.encode_json(new.file),
            ),
        )


def begin_attempt(cursor: apsw.Cursor, *, delivery_id: DeliveryId, at: float) -> None:
    """An attempt that follows one without an outcome may be the second to arrive."""
    cursor.execute(
        "UPDATE outbox SET state = 'sending', attempts = attempts + 1, updated_at = ?,"
        " resends = resends + (doubtful OR state <> 'pending'),"
        " doubtful = doubtful OR state <> 'pending'"
        " WHERE id = ? AND state IN ('pending', 'sending', 'unknown')",
        (at, delivery_id),
    )
    _require_unsettled(cursor, delivery_id)


def settle_delivery(
    cursor: apsw.Cursor,
    *,
    delivery_id: DeliveryId,
    state: DeliveryState,
    at: float,
    platform_message_id: str | None,
    error: str,
) -> None:
    """Settled as pending, the attempt took nothing to the platform: it was no resend. One that is
    unknown still, as every start finds it, is as old as it was."""
    cursor.execute(
        "UPDATE outbox SET state = ?1, error = ?2,"
        " updated_at = CASE WHEN state = ?1 THEN updated_at ELSE ?3 END,"
        " platform_message_id = coalesce(?4, platform_message_id),"
        " resends = resends - (?1 = 'pending' AND state = 'sending' AND resends > 0),"
        " doubtful = doubtful OR ?1 = 'unknown',"
        " text = CASE WHEN kind = 'code' AND ?1 IN ('sent', 'failed') THEN '' ELSE text END"
        " WHERE id = ?5 AND state IN ('pending', 'sending', 'unknown')",
        (state.value, error, at, platform_message_id, delivery_id),
    )
    _require_unsettled(cursor, delivery_id)


def requeue_delivery(
    cursor: apsw.Cursor, *, delivery_id: DeliveryId, by: str, at: float
) -> DeliveryRow | None:
    """What is known of it stays known: a doubt is told with the next attempt, which counts as the
    first one behind it. A part that stands somewhere is changed there, and not said again."""
    cursor.execute(
        "UPDATE outbox SET state = 'pending', error = '', resends = 0, updated_at = ?"
        " WHERE id = ? AND state IN ('failed', 'unknown')",
        (at, delivery_id),
    )
    if not cursor.connection.changes():
        return None
    cursor.execute(
        "UPDATE parts SET state = iif(platform_message_id IS NULL, 'pending', 'sent'), error = '',"
        " resends = 0, updated_at = ?, final = 0 WHERE delivery_id = ?"
        " AND state IN ('failed', 'unknown')",
        (at, delivery_id),
    )
    found = cursor.execute(
        f"SELECT {outbox_rows.DELIVERY_COLUMNS} FROM outbox WHERE id = ?", (delivery_id,)
    ).fetchall()
    row = outbox_rows.decode_delivery(found[0])
    audit.record(
        cursor,
        AuditEntry(
            kind=AuditKind.DELIVERY_RETRIED,
            actor=by,
            at=at,
            session_id=row.session_id,
            turn_id=row.turn_id,
            subject=delivery_id,
        ),
    )
    return msgspec.structs.replace(row, parts=streams.read_parts(cursor, delivery_id))


def _require_unsettled(cursor: apsw.Cursor, delivery_id: DeliveryId) -> None:
    if not cursor.connection.changes():
        raise StoreError(f"delivery {delivery_id} is settled already, or there is none of that id")
