"""Appends messages to a session's transcript and steps to a turn; compactions, and usage of
auxiliary tasks."""

from collections.abc import Sequence
from typing import NamedTuple

import apsw

from holdfast.core.ids import CallId, SessionId, TurnId
from holdfast.core.messages.transcript import AssistantMessage, CompactionMessage, Message, ToolCall
from holdfast.core.turns.external import taints_of
from holdfast.core.turns.turn import StepKind, Usage
from holdfast.store.sqlite import rows

_NO_USAGE = Usage()

# ?1 is the session, ?2 the turn.
_NEXT_MESSAGE = "(SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE session_id = ?1)"
_NEXT_STEP = "(SELECT coalesce(max(seq), 0) + 1 FROM steps WHERE turn_id = ?2)"


class TurnPosition(NamedTuple):
    """The session, turn and time of a write."""

    session_id: SessionId
    turn_id: TurnId
    at: float


def append_message(cursor: apsw.Cursor, message: Message, position: TurnPosition) -> int:
    """Appends a message and returns its seq in the session; the first is 1."""
    seq: int = cursor.execute(
        "INSERT INTO messages (session_id, turn_id, created_at, seq, body)"
        f" VALUES (?1, ?2, ?3, {_NEXT_MESSAGE}, ?4) RETURNING seq",
        (*position, rows.encode_json(message)),
    ).get
    note_added_messages(cursor, position.session_id)
    note_taints(cursor, position.session_id, message, seq=seq, at=position.at)
    return seq


def note_taints(
    cursor: apsw.Cursor, session_id: SessionId, message: Message, *, seq: int, at: float
) -> None:
    """Adds the sources of external content in a message. They stay when the message is summarised
    or undone: the workspace may still have the content."""
    for taint in taints_of(message):
        cursor.execute(
            "INSERT OR IGNORE INTO taints (session_id, label, principal, seq, added_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (session_id, taint.label, taint.principal or "", seq, at),
        )


def note_added_messages(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Tells the search index that this session has new messages. To be called wherever messages
    are inserted; triggers note changes and deletions."""
    cursor.execute(
        "INSERT INTO message_changes (session) SELECT ?1 WHERE ?1 IS NOT"
        " (SELECT session FROM message_changes ORDER BY number DESC LIMIT 1)",
        (session_id,),
    )


def next_seq(cursor: apsw.Cursor, session_id: SessionId) -> int:
    """The seq that the next message of the session takes."""
    seq: int = cursor.execute(f"SELECT {_NEXT_MESSAGE}", (session_id,)).get
    return seq


def add_step(
    cursor: apsw.Cursor,
    kind: StepKind,
    position: TurnPosition,
    *,
    message_seq: int,
    call_id: CallId | None = None,
    usage: Usage = _NO_USAGE,
) -> None:
    """Adds a step that has already ended."""
    cursor.execute(
        "INSERT INTO steps (session_id, turn_id, started_at, finished_at, seq, kind, call_id,"
        f" message_seq, {rows.USAGE_COLUMNS})"
        f" VALUES (?1, ?2, ?3, ?3, {_NEXT_STEP}, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        (*position, kind, call_id, message_seq, *rows.usage_columns(usage)),
    )


def start_step(
    cursor: apsw.Cursor, call_id: CallId, position: TurnPosition, *, allowed: str | None
) -> None:
    """Adds a tool step without a result; a call that is started again keeps its open step."""
    cursor.execute(
        "INSERT INTO steps (session_id, turn_id, started_at, seq, kind, call_id, allowed)"
        f" SELECT ?1, ?2, ?3, {_NEXT_STEP}, 'tool', ?4, ?5 WHERE NOT EXISTS (SELECT 1 FROM steps"
        " WHERE turn_id = ?2 AND call_id = ?4 AND finished_at IS NULL)",
        (*position, call_id, allowed),
    )


def finish_step(
    cursor: apsw.Cursor, call_id: CallId, position: TurnPosition, *, message_seq: int
) -> None:
    """Sets the result of a call; if the call was never started, its step is added here."""
    cursor.execute(
        "UPDATE steps SET message_seq = ?, finished_at = ?"
        " WHERE turn_id = ? AND call_id = ? AND finished_at IS NULL",
        (message_seq, position.at, position.turn_id, call_id),
    )
    if not cursor.connection.changes():
        add_step(cursor, StepKind.TOOL, position, message_seq=message_seq, call_id=call_id)


def last_calls(cursor: apsw.Cursor, turn_id: TurnId) -> Sequence[ToolCall]:
    """The calls of the last reply of a turn that is in the log."""
    body = cursor.execute(
        "SELECT messages.body FROM steps JOIN messages ON messages.session_id = steps.session_id"
        " AND messages.seq = steps.message_seq WHERE steps.turn_id = ? AND steps.kind = 'model'"
        " ORDER BY steps.seq DESC LIMIT 1",
        (turn_id,),
    ).get
    reply = None if body is None else rows.decode_message(body)
    return reply.calls if isinstance(reply, AssistantMessage) else ()


class TurnProgress(NamedTuple):
    """The steps of a turn so far: the last one's seq (0: none) and what they used."""

    last: int
    usage: Usage


NO_PROGRESS = TurnProgress(0, _NO_USAGE)


def turn_progress(cursor: apsw.Cursor, turn_id: TurnId) -> TurnProgress:
    (total,) = cursor.execute(
        "SELECT coalesce(max(seq), 0), coalesce(sum(input_tokens), 0),"
        " coalesce(sum(output_tokens), 0), coalesce(sum(cached_tokens), 0),"
        " coalesce(sum(reasoning_tokens), 0) FROM steps WHERE turn_id = ?",
        (turn_id,),
    ).fetchall()
    return TurnProgress(total[0], rows.decode_usage(total[1:]))  # type: ignore[arg-type]  # INTEGER columns


def add_compaction_in_turn(
    cursor: apsw.Cursor, *, position: TurnPosition, message: CompactionMessage, usage: Usage
) -> None:
    """Adds a compaction as a step of the turn that needed it; the caller knows that the turn is
    open."""
    seq = append_message(cursor, message, position)
    add_step(cursor, StepKind.COMPACTION, position, message_seq=seq, usage=usage)
    _set_latest_compaction(cursor, position.session_id, seq=seq, covers=message.covers)


def add_compaction_between_turns(
    cursor: apsw.Cursor, *, session_id: SessionId, message: CompactionMessage, at: float
) -> None:
    seq: int = cursor.execute(
        "INSERT INTO messages (session_id, seq, created_at, body)"
        f" VALUES (?1, {_NEXT_MESSAGE}, ?2, ?3) RETURNING seq",
        (session_id, at, rows.encode_json(message)),
    ).get
    note_added_messages(cursor, session_id)
    _set_latest_compaction(cursor, session_id, seq=seq, covers=message.covers)


def add_auxiliary_usage(
    cursor: apsw.Cursor, *, session_id: SessionId, errand: str, usage: Usage
) -> None:
    """Adds a call to the auxiliary usage of the session; a deleted session gets nothing."""
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


class _CountedUsage(NamedTuple):
    """What a session has used by model, and how far: up to the message `through`, of which those
    after `stored` were read for it."""

    stored: int
    through: int
    by_model: dict[str, Usage]


_USAGE_SUMS = ", ".join(
    f"coalesce(sum(p.{column}), 0)" for column in rows.USAGE_COLUMNS.split(", ")
)
# The turns that have messages after ?2 are found first: one may have many steps.
_LATER_USAGE = (
    f"SELECT coalesce(json_extract(m.body, '$.model'), ''), {_USAGE_SUMS} FROM"
    " (SELECT DISTINCT turn_id FROM messages WHERE session_id = ?1 AND seq > ?2) t"
    " CROSS JOIN steps p ON p.turn_id = t.turn_id AND p.message_seq > ?2"
    " LEFT JOIN messages m ON m.session_id = ?1 AND m.seq = p.message_seq AND p.kind = 'model'"
    " GROUP BY 1"
)


def model_usage(cursor: apsw.Cursor, session_id: SessionId) -> _CountedUsage:
    """The usage of the turns of a session by model, from the stored sums and the steps after
    them."""
    counted = cursor.execute(
        f"SELECT through, model, {rows.USAGE_COLUMNS} FROM model_usage WHERE session_id = ?",
        (session_id,),
    ).fetchall()
    stored = int(str(counted[0][0])) if counted else 0
    by_model = {str(row[1]): rows.decode_usage(row[2:]) for row in counted}
    for model, *used in cursor.execute(_LATER_USAGE, (session_id, stored)).fetchall():
        by_model[str(model)] = by_model.get(str(model), _NO_USAGE) + rows.decode_usage(tuple(used))
    through = next_seq(cursor, session_id) - 1
    by_model = {model: usage for model, usage in by_model.items() if usage != _NO_USAGE}
    return _CountedUsage(stored, through, by_model)


def count_model_usage(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Updates the stored usage by model. A stored message has all its usage, also in an open
    turn. A deleted session has no messages and gets no rows."""
    _, through, by_model = model_usage(cursor, session_id)
    if not through:
        return
    cursor.execute("DELETE FROM model_usage WHERE session_id = ?", (session_id,))
    cursor.executemany(
        f"INSERT INTO model_usage (session_id, through, model, {rows.USAGE_COLUMNS})"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (session_id, through, model, *rows.usage_columns(usage))
            for model, usage in (by_model or {"": _NO_USAGE}).items()
        ],
    )


def _set_latest_compaction(
    cursor: apsw.Cursor, session_id: SessionId, *, seq: int, covers: int
) -> None:
    """Finds the latest compaction, from the end of the one before it: an /undo that takes back a
    message that a compaction covers takes that compaction back, too."""
    before = cursor.execute(
        "SELECT covers, covered_seq FROM compactions WHERE session_id = ? AND covers <= ?",
        (session_id, covers),
    ).fetchone()
    already_covered, covered_seq = before or (0, 0)
    if covers > already_covered:
        covered_seq = cursor.execute(
            f"SELECT seq FROM {rows.messages_not_undone()} WHERE session_id = ? AND seq > ?"
            " ORDER BY seq LIMIT 1 OFFSET ?",
            (session_id, covered_seq, covers - already_covered - 1),
        ).get
    cursor.execute(
        "INSERT INTO compactions (session_id, seq, covers, covered_seq) VALUES (?1, ?2, ?3, ?4)"
        " ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, covers = excluded.covers,"
        " covered_seq = excluded.covered_seq",
        (session_id, seq, covers, seq if covered_seq is None else covered_seq),
    )
