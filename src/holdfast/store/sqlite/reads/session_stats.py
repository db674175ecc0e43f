"""Queries for dashboards: summaries of many sessions, token usage by model, and the figures of a
transcript.

Imported only when a dashboard asks.
"""

from collections.abc import Mapping, Sequence

import apsw

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.turns.timeline import (
    ModelUsage,
    ReplyStats,
    SessionPreview,
    TranscriptStats,
    TurnOutline,
)
from holdfast.core.turns.turn import TurnRow, Usage
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import outbox, sessions
from holdfast.store.sqlite.reads import turns as turn_reads
from holdfast.store.sqlite.rows import Row
from holdfast.store.sqlite.writes import gateway_stops, transcript

_LAST_RECORDS = 16  # records at the end of a transcript that are searched for its last text
_PREVIEW = 240  # characters of that text
_PRECEDING_STEPS = 64  # steps before a reply that are searched for the last finished one
_MAX_DELIVERIES = 20  # of one turn
_FAR_FUTURE = 9e15  # after every time
# By the start of a body: long tool outputs are skipped without parsing them.
_LAST_TEXT_QUERY = f"""SELECT substr(body, 10, 1), substr(json_extract(body, '$.text'), 1, ?2) FROM
    (SELECT seq, body FROM {rows.messages_not_undone()}
    WHERE session_id = ?1 ORDER BY seq DESC LIMIT ?3)
    WHERE (body GLOB '{{"type":"user"*' OR body GLOB '{{"type":"assistant"*')
    AND json_extract(body, '$.text') <> '' ORDER BY seq DESC LIMIT 1"""
_ROLES = {"u": "user", "a": "assistant"}
_STEP_USAGE = ", ".join(f"p.{column}" for column in rows.USAGE_COLUMNS.split(", "))
_USAGE_TOTALS = ", ".join(
    f"coalesce(sum(p.{column}), 0)" for column in rows.USAGE_COLUMNS.split(", ")
)


def session_summaries(
    cursor: apsw.Cursor, *, session_ids: Sequence[SessionId]
) -> list[SessionPreview]:
    return [_session_summary(cursor, session_id) for session_id in session_ids]


def session_usage_by_model(cursor: apsw.Cursor, session_id: SessionId) -> ModelUsage:
    found = transcript.model_usage(cursor, session_id)
    beside = sessions.auxiliary_total(cursor, session_id)
    if beside != Usage():
        found.by_model[""] = found.by_model.get("", Usage()) + beside
    return ModelUsage(by_model=found.by_model, uncounted=found.through - found.stored)


def transcript_stats(
    cursor: apsw.Cursor, *, session_id: SessionId, first: int, last: int, priced: bool
) -> TranscriptStats:
    """`priced`: include the usage of its turns by model, for which all of their steps are read,
    also those outside of the range."""
    found = cursor.execute(
        "SELECT DISTINCT turn_id FROM messages"
        " WHERE session_id = ? AND seq BETWEEN ? AND ? AND turn_id IS NOT NULL",
        (session_id, first, last),
    ).fetchall()
    turns = turn_reads.turns_by_id(cursor, [TurnId(str(row[0])) for row in found])
    return TranscriptStats(
        turns=tuple(turns),
        replies=tuple(
            reply for turn in turns for reply in _replies(cursor, turn, first=first, last=last)
        ),
        deliveries=tuple(
            row
            for turn in turns
            for row in outbox.deliveries_of_turn(cursor, turn.turn.id, limit=_MAX_DELIVERIES)
        ),
        usage_by_model={each.turn.id: _turn_usage_by_model(cursor, each.turn.id) for each in turns}
        if priced
        else {},
    )


def _session_summary(cursor: apsw.Cursor, session_id: SessionId) -> SessionPreview:
    row = cursor.execute(_LAST_TEXT_QUERY, (session_id, _PREVIEW, _LAST_RECORDS)).fetchone()
    by, text = ("", "") if row is None else (_ROLES[str(row[0])], str(row[1]))
    usage = sessions.session_usage(cursor, session_id) + _open_turn_usage(cursor, session_id)
    return SessionPreview(session_id=session_id, last_text=text, last_role=by, usage=usage)


def _open_turn_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """The usage of a turn that has not ended, which only its steps contain."""
    (used,) = cursor.execute(
        f"SELECT {_USAGE_TOTALS} FROM turns t JOIN steps p ON p.turn_id = t.id"
        " WHERE t.session_id = ? AND t.state = 'open'",
        (session_id,),
    ).fetchall()
    return rows.decode_usage(used)


def _turn_usage_by_model(cursor: apsw.Cursor, turn_id: TurnId) -> Mapping[str, Usage]:
    found = cursor.execute(
        f"SELECT json_extract(m.body, '$.model'), {_USAGE_TOTALS} FROM steps p LEFT JOIN messages m"
        " ON m.session_id = p.session_id AND m.seq = p.message_seq AND p.kind = 'model'"
        " WHERE p.turn_id = ? GROUP BY 1",
        (turn_id,),
    ).fetchall()
    return {str(row[0] or ""): rows.decode_usage(row[1:]) for row in found if any(row[1:])}


def _replies(
    cursor: apsw.Cursor, outline: TurnOutline, *, first: int, last: int
) -> list[ReplyStats]:
    turn = outline.turn
    found = cursor.execute(
        "SELECT p.message_seq, json_extract(m.body, '$.model'), p.finished_at,"
        " (SELECT max(coalesce(b.finished_at, b.started_at)) FROM steps b WHERE"
        f" b.turn_id = p.turn_id AND b.seq BETWEEN p.seq - {_PRECEDING_STEPS} AND p.seq - 1),"
        f" {_STEP_USAGE}"
        " FROM steps p JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq"
        " WHERE p.turn_id = ? AND p.kind = 'model' AND p.message_seq BETWEEN ? AND ?"
        " AND p.finished_at IS NOT NULL ORDER BY p.seq",
        (turn.id, first, last),
    ).fetchall()
    back = _restart_times(cursor, outline)
    return [_reply(row, turn, back) for row in found]


def _reply(row: Row, turn: TurnRow, back: Sequence[float]) -> ReplyStats:
    ended_at: float = row[2]
    began = max([row[3] or turn.started_at, *(at for at in back if at <= ended_at)])
    return ReplyStats(
        record=row[0],
        turn_id=turn.id,
        model=row[1] or "",
        began_at=min(ended_at, began),
        ended_at=ended_at,
        usage=rows.decode_usage(row[4:]),
    )


def _restart_times(cursor: apsw.Cursor, outline: TurnOutline) -> list[float]:
    """When a process became ready again, for a turn that was open while none ran."""
    if not outline.resumed:
        return []
    turn = outline.turn
    stops = gateway_stops.stops_between(cursor, turn.started_at, turn.ended_at or _FAR_FUTURE)
    return [stop.ready_at for stop in stops if stop.ready_at is not None]
