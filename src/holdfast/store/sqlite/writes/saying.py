"""What is said to a chat out of the blue: owed once, and noted in the chat's conversation."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.saying import ProactiveDelivery
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import outbox, transcript


def add_proactive_message(cursor: apsw.Cursor, *, said: ProactiveDelivery) -> bool:
    """False: a delivery of that id was there before, and all that goes with it."""
    new = said.delivery
    if cursor.execute("SELECT 1 FROM outbox WHERE id = ?", (new.id,)).fetchone() is not None:
        return False
    outbox.add_deliveries(cursor, (new,), at=said.at)
    if said.note is not None and new.session_id is not None:
        _add_note(cursor, new.session_id, said.note, at=said.at)
    return True


def _add_note(cursor: apsw.Cursor, session_id: SessionId, note: NoteMessage, *, at: float) -> None:
    """The conversation counts as used: whoever answers soon is to find it going on. One that was
    deleted meanwhile is not begun again by this."""
    cursor.execute(
        "UPDATE sessions SET active_at = max(active_at, ?) WHERE id = ?", (at, session_id)
    )
    if not cursor.connection.changes():
        return
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, ?, ?)",
        (session_id, transcript.next_seq(cursor, session_id), at, rows.encode_json(note)),
    )
