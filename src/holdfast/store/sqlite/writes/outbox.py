"""The outbox: new deliveries, streamed deliveries and their parts, attempts, outcomes, and
proactive messages."""

from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.outbox import (
    DeliveryPart,
    DeliveryRow,
    DeliveryState,
    FailureReport,
    NewDelivery,
    ProactiveDelivery,
)
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.store_commands import SettleDelivery
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import audit_log, transcript


def begin_stream(cursor: apsw.Cursor, *, new: NewDelivery, at: float) -> None:
    """Inserts a streamed delivery with the first attempt at its first part. The turn must be open:
    one that has ended, or was never begun, has nothing more to show."""
    cursor.execute(
        "INSERT INTO outbox (id, address, kind, session_id, turn_id, state, created_at, updated_at)"
        " SELECT ?1, ?2, ?3, ?4, ?5, 'streaming', ?6, ?6"
        " WHERE EXISTS (SELECT 1 FROM turns WHERE id = ?5 AND state = 'open')",
        (new.id, rows.encode_json(new.address), new.kind.value, new.session_id, new.turn_id, at),
    )
    if not cursor.connection.changes():
        raise StoreError(
            "turn {turn_id} is not open: its text was not added to the outbox", turn_id=new.turn_id
        )
    begin_part(cursor, delivery_id=new.id, number=1, at=at)


def complete_stream(cursor: apsw.Cursor, new: NewDelivery, *, at: float) -> bool:
    """Sets the final text of a streamed delivery; False: the store has no such delivery. If its
    chat shows that text already, the delivery ends with this, and so does its part."""
    shown = new.shown_part
    cursor.execute(
        "UPDATE outbox SET kind = ?2, text = ?3, inbox_id = ?4, state = ?5, error = ?6,"
        " updated_at = ?7, platform_message_id = ?8 WHERE id = ?1 AND state = 'streaming'",
        (
            new.id,
            new.kind.value,
            new.text,
            new.inbox_id,
            new.state.value,
            new.error,
            at,
            None if shown is None else shown.platform_message_id,
        ),
    )
    found = bool(cursor.connection.changes())
    if found and shown is not None:
        settle_part(cursor, delivery_id=new.id, part=shown, error="", at=at)
    return found


def begin_part(cursor: apsw.Cursor, *, delivery_id: DeliveryId, number: int, at: float) -> None:
    """Begins an attempt to send a part. One that follows an attempt without an outcome may arrive
    as a duplicate."""
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
    """Records the outcome of an attempt. "Pending": it did not reach the platform and is not a
    resend. A part that was found at the platform may have had no attempt in this file, for example
    after restoring a backup. Once its message is to be replaced, the part counts as never sent."""
    cursor.execute(
        "INSERT INTO parts (delivery_id, number, session_id, state, error, updated_at, final,"
        " platform_message_id, doubtful, replaced)"
        " SELECT id, ?2, session_id, ?3, ?4, ?5, ?6, ?7, ?3 = 'unknown', ?8"
        " FROM outbox WHERE id = ?1"
        " ON CONFLICT DO UPDATE SET state = ?3, error = ?4, updated_at = ?5, final = ?6,"
        " platform_message_id = iif(replaced <> ?8, ?7, coalesce(?7, platform_message_id)),"
        " resends = iif(replaced <> ?8, 0,"
        " resends - (?3 = 'pending' AND state = 'sending' AND resends > 0)),"
        " doubtful = iif(replaced <> ?8, 0, doubtful OR ?3 = 'unknown'), replaced = ?8",
        (
            delivery_id,
            part.number,
            part.state.value,
            error,
            at,
            part.final,
            part.platform_message_id,
            part.replaced,
        ),
    )
    _require_delivery(cursor, delivery_id)


def read_parts(cursor: apsw.Cursor, delivery_id: DeliveryId) -> tuple[DeliveryPart, ...]:
    found = cursor.execute(
        "SELECT number, state, final, doubtful, resends, platform_message_id, replaced FROM parts"
        " WHERE delivery_id = ? ORDER BY number",
        (delivery_id,),
    )
    return tuple(rows.decode_part(row) for row in found)


def delete_parts(cursor: apsw.Cursor, deleted: Sequence[Any]) -> None:
    """Deletes the parts of deleted deliveries, given by their ids."""
    cursor.executemany("DELETE FROM parts WHERE delivery_id = ?", deleted)


def detach_parts(cursor: apsw.Cursor, blanked: Sequence[Any]) -> None:
    """Removes the deleted session from the parts of deliveries that are still being sent."""
    cursor.executemany("UPDATE parts SET session_id = NULL WHERE delivery_id = ?", blanked)


def _require_delivery(cursor: apsw.Cursor, delivery_id: DeliveryId) -> None:
    if not cursor.connection.changes():
        raise StoreError(
            "delivery {delivery_id} does not exist: no part was added",
            delivery_id=delivery_id,
        )


def add_deliveries(cursor: apsw.Cursor, deliveries: Iterable[NewDelivery], *, at: float) -> None:
    for new in deliveries:
        if new.started is not None and complete_stream(cursor, new, at=at):
            continue
        cursor.execute(
            "INSERT INTO outbox (id, address, kind, text, session_id, turn_id, inbox_id,"
            " state, expires_at, choices, file, created_at, updated_at)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?11, ?12, ?10, ?10)",
            (
                new.id,
                rows.encode_json(new.address),
                new.kind,
                new.text,
                new.session_id,
                new.turn_id,
                new.inbox_id,
                new.state,
                new.expires_at,
                at,
                rows.encode_json(new.buttons) if new.buttons else None,
                None if new.file is None else rows.encode_json(new.file),
            ),
        )


def begin_attempt(cursor: apsw.Cursor, *, delivery_id: DeliveryId, at: float) -> None:
    """Begins an attempt to send a delivery. One that follows an attempt without an outcome may
    arrive as a duplicate."""
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
    part: DeliveryPart | None = None,
) -> None:
    """Records the outcome of an attempt. "Pending": it did not reach the platform and is not a
    resend. A delivery whose outcome is still unknown, as every start finds it, keeps its age."""
    if part is not None:
        settle_part(cursor, delivery_id=delivery_id, part=part, error=error, at=at)
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


def report_failed_delivery(
    cursor: apsw.Cursor, *, end: SettleDelivery, report: FailureReport
) -> None:
    settle_delivery(
        cursor,
        delivery_id=end.delivery_id,
        state=end.state,
        at=end.at,
        platform_message_id=end.platform_message_id,
        error=end.error,
        part=end.part,
    )
    for session_id in report.session_ids:
        _add_note(cursor, session_id, report.note, at=end.at)
    if report.notice is not None:
        add_deliveries(cursor, (report.notice,), at=end.at)


def requeue_delivery(
    cursor: apsw.Cursor, *, delivery_id: DeliveryId, by: str, at: float
) -> DeliveryRow | None:
    """Queues a delivery again. An unknown outcome is kept: it marks the next attempt, which counts
    as the first, as a possible duplicate. A part that was sent is edited, not sent again."""
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
        f"SELECT {rows.DELIVERY_COLUMNS} FROM outbox WHERE id = ?", (delivery_id,)
    ).fetchall()
    row = rows.decode_delivery(found[0])
    audit_log.record(
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
    return msgspec.structs.replace(row, parts=read_parts(cursor, delivery_id))


def _require_unsettled(cursor: apsw.Cursor, delivery_id: DeliveryId) -> None:
    if not cursor.connection.changes():
        raise StoreError(
            "delivery {delivery_id} is already settled or does not exist",
            delivery_id=delivery_id,
        )


def add_proactive_message(cursor: apsw.Cursor, *, proactive: ProactiveDelivery) -> bool:
    """Adds a proactive message; False: a delivery with that id exists already, with everything that
    belongs to it."""
    new = proactive.delivery
    if cursor.execute("SELECT 1 FROM outbox WHERE id = ?", (new.id,)).fetchone() is not None:
        return False
    add_deliveries(cursor, (new,), at=proactive.at)
    if proactive.note is not None and new.session_id is not None:
        _add_note(cursor, new.session_id, proactive.note, at=proactive.at)
    return True


def _add_note(cursor: apsw.Cursor, session_id: SessionId, note: NoteMessage, *, at: float) -> None:
    """Notes the message in the transcript of its session, which counts as active, so that a reply
    soon after continues it. A session that was deleted meanwhile is not created again."""
    cursor.execute(
        "UPDATE sessions SET active_at = max(active_at, ?) WHERE id = ?", (at, session_id)
    )
    if not cursor.connection.changes():
        return
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, ?, ?)",
        (session_id, transcript.next_seq(cursor, session_id), at, rows.encode_json(note)),
    )
    transcript.note_added_messages(cursor, session_id)
