"""Compactions and auxiliary calls: the summaries of a session, and what was used beside turns."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import CompactionMessage
from holdfast.core.turns.turn import StepKind, Usage
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.writes import transcript
from holdfast.store.sqlite.writes.transcript import TurnPosition


def add_compaction_in_turn(
    cursor: apsw.Cursor, *, place: TurnPosition, message: CompactionMessage, usage: Usage
) -> None:
    """A step of the turn that needed the room; the caller knows that the turn is open."""
    seq = transcript.append_message(cursor, message, place)
    transcript.add_step(cursor, StepKind.COMPACTION, place, message_seq=seq, usage=usage)
    _set_latest_compaction(cursor, place.session_id, seq=seq, covers=message.covers)


def add_compaction_between_turns(
    cursor: apsw.Cursor, *, session_id: SessionId, message: CompactionMessage, at: float
) -> None:
    seq = transcript.next_seq(cursor, session_id)
    cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body) VALUES (?, ?, ?, ?)",
        (session_id, seq, at, rows.encode_json(message)),
    )
    _set_latest_compaction(cursor, session_id, seq=seq, covers=message.covers)


def add_auxiliary_usage(
    cursor: apsw.Cursor, *, session_id: SessionId, errand: str, usage: Usage
) -> None:
    """Add a call to what the session used beside its turns; one that is gone counts nothing."""
    cursor.execute(
        f"INSERT INTO auxiliary (session_id, errand, calls, {rows.USAGE_COLUMNS})"
        " SELECT ?1, ?2, 1, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM sessions WHERE id = ?1)"
        " ON CONFLICT (session_id, errand) DO UPDATE SET calls = calls + 1,"
        " input_tokens = input_tokens + excluded.input_tokens,"
        " output_tokens = output_tokens + excluded.output_tokens,"
        " cached_tokens = cached_tokens + excluded.cached_tokens,"
        " reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens",
        (session_id, errand, *rows.usage_columns(usage)),
    )


def _set_latest_compaction(
    cursor: apsw.Cursor, session_id: SessionId, *, seq: int, covers: int
) -> None:
    cursor.execute(
        "INSERT INTO compactions (session_id, seq, covers) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, covers = excluded.covers",
        (session_id, seq, covers),
    )
