"""Queries about turns: lists of a session or of all sessions, and the timeline of one turn by
pages."""

from collections.abc import Mapping, Sequence

import apsw
import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import CallRecovery, ToolOutcome, summarise_arguments
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.timeline import (
    MAX_TIMELINE_ITEMS,
    MAX_TURNS_SCANNED,
    StepSummary,
    TurnDetails,
    TurnInput,
    TurnOutline,
    TurnQuery,
)
from holdfast.core.turns.turn import StepKind, TurnRow, TurnRowState, Usage
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import approvals, outbox
from holdfast.store.sqlite.rows import Row
from holdfast.store.sqlite.writes import gateway_stops, transcript

_FAR_FUTURE = 9e15  # past every time
_MAX_ARGUMENTS = 20_000  # characters of a call that are looked at to tell what it is about
# Of its message only what names it: the words themselves are in the transcript.
_STEP_COLUMNS = (
    "p.seq, p.kind, p.started_at, p.finished_at, p.message_seq, p.call_id,"
    " json_extract(m.body, '$.model'), json_extract(m.body, '$.name'),"
    " json_extract(m.body, '$.outcome'), json_extract(m.body, '$.taken_up'),"
    " json_extract(m.body, '$.exit_code'),"
    " p.input_tokens, p.output_tokens, p.cached_tokens, p.reasoning_tokens"
)


def turns_of_session(
    cursor: apsw.Cursor, *, session_id: SessionId, limit: int, before: TurnId | None
) -> list[TurnOutline]:
    """The turns of a session, the last first, in the order of their ids, for which there is an
    index."""
    found = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS}, left_as FROM turns WHERE session_id = ?"
        f"{'' if before is None else ' AND id < ?'} ORDER BY id DESC LIMIT ?",
        (session_id, limit) if before is None else (session_id, before, limit),
    ).fetchall()
    return [_summary(cursor, row) for row in found]


def recent_turns(cursor: apsw.Cursor, *, choice: TurnQuery) -> list[TurnOutline]:
    """The last turns of all sessions, by their ids, which sort by creation time: this needs no
    index."""
    if choice.state is TurnRowState.OPEN:
        which = (
            f"SELECT {rows.TURN_COLUMNS}, left_as FROM turns INDEXED BY turns_open"
            " WHERE state = 'open'"
        )
        which += " AND (?1 IS NULL OR id < ?1)"
    else:
        which = (
            f"SELECT {rows.TURN_COLUMNS}, left_as"
            " FROM (SELECT * FROM turns WHERE ?1 IS NULL OR id < ?1"
            f" ORDER BY id DESC LIMIT {MAX_TURNS_SCANNED}) WHERE (?2 IS NULL OR state = ?2)"
        )
    order = "coalesce(ended_at - started_at, -1.0) DESC, id DESC" if choice.slowest else "id DESC"
    found = cursor.execute(
        f"{which} ORDER BY {order} LIMIT ?3", (choice.before, choice.state, choice.limit)
    ).fetchall()
    return [_summary(cursor, row) for row in found]


def turn_timeline(
    cursor: apsw.Cursor, *, turn_id: TurnId, after: int, limit: int
) -> TurnDetails | None:
    found = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS}, left_as FROM turns WHERE id = ?", (turn_id,)
    ).fetchone()
    if found is None:
        return None
    outline = _summary(cursor, found)
    lines = _step_summaries(cursor, turn_id, after=after, limit=limit + 1)
    turn = outline.turn
    return TurnDetails(
        outline=outline,
        inputs=_turn_inputs(cursor, turn),
        steps=tuple(lines[:limit]),
        more=len(lines) > limit,
        since=_last_activity(cursor, turn, after),
        approvals=tuple(approvals.approvals_of_turn(cursor, turn_id)[:MAX_TIMELINE_ITEMS]),
        deliveries=tuple(outbox.deliveries_of_turn(cursor, turn_id, limit=MAX_TIMELINE_ITEMS)),
        stops=tuple(
            gateway_stops.stops_between(cursor, turn.started_at, turn.ended_at or _FAR_FUTURE)
        ),
        previous=_neighbour(cursor, turn, "<", "DESC"),
        next=_neighbour(cursor, turn, ">", "ASC"),
    )


def usage_by_model(
    cursor: apsw.Cursor, *, turn_id: TurnId, after: int, limit: int
) -> tuple[Mapping[str, Usage], int]:
    """The usage of the next `limit` steps by model ("": unknown), and the seq of the last one; 0:
    there are none."""
    spent: dict[str, Usage] = {}
    last = 0
    for row in cursor.execute(
        f"SELECT p.seq, json_extract(m.body, '$.model'), {rows.USAGE_COLUMNS} FROM steps p"
        " LEFT JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq"
        " AND p.kind = 'model' WHERE p.turn_id = ? AND p.seq > ? ORDER BY p.seq LIMIT ?",
        (turn_id, after, limit),
    ):
        last, model, usage = row[0], row[1] or "", rows.decode_usage(row[2:])
        if any(row[2:]):
            spent[model] = spent.get(model, Usage()) + usage
    return spent, last


def _summary(cursor: apsw.Cursor, row: Row) -> TurnOutline:
    turn = rows.decode_turn(row[:-1])
    last = cursor.execute(
        "SELECT seq FROM steps WHERE turn_id = ? ORDER BY seq DESC LIMIT 1", (turn.id,)
    ).fetchone()
    is_open = turn.state is TurnRowState.OPEN
    return TurnOutline(
        turn=turn,
        usage=transcript.turn_progress(cursor, turn.id).usage if is_open else turn.usage,
        steps=0 if last is None else last[0],
        resumed=gateway_stops.count_restarts_between(
            cursor, turn.started_at, turn.ended_at or _FAR_FUTURE
        ),
        exit_reason=TurnExitReason(row[-1]) if is_open and row[-1] is not None else None,
    )


def _step_summaries(
    cursor: apsw.Cursor, turn_id: TurnId, *, after: int, limit: int
) -> list[StepSummary]:
    found = cursor.execute(
        f"SELECT {_STEP_COLUMNS} FROM steps p LEFT JOIN messages m ON m.session_id = p.session_id"
        " AND m.seq = p.message_seq WHERE p.turn_id = ? AND p.seq > ? ORDER BY p.seq LIMIT ?",
        (turn_id, after, limit),
    )
    lines = [_decode_step_summary(row) for row in found]
    called = {line.call_id for line in lines if line.call_id is not None}
    asked = _requested_calls(cursor, turn_id, lines) if called else {}
    return [_with_call(line, asked) for line in lines]


def _requested_calls(
    cursor: apsw.Cursor, turn_id: TurnId, lines: Sequence[StepSummary]
) -> Mapping[CallId, tuple[str, str]]:
    """Name and arguments of what the replies asked for that are among these steps, and of the last
    one before them: a page may begin amidst the calls of one reply."""
    found = cursor.execute(
        "SELECT json_extract(c.value, '$.id'), json_extract(c.value, '$.name'),"
        f" substr(json_extract(c.value, '$.arguments'), 1, {_MAX_ARGUMENTS})"
        " FROM steps p JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq,"
        " json_each(m.body, '$.calls') c WHERE p.turn_id = ?1 AND p.kind = 'model'"
        " AND p.seq <= ?3 AND p.seq >= coalesce((SELECT max(seq) FROM steps WHERE turn_id = ?1"
        " AND kind = 'model' AND seq < ?2), 0)",
        (turn_id, lines[0].seq, lines[-1].seq),
    )
    return {CallId(call_id): (name, given or "") for call_id, name, given in found}


def _with_call(line: StepSummary, asked: Mapping[CallId, tuple[str, str]]) -> StepSummary:
    """The step with the name of its call: a running call has no result yet that could name it, but
    the reply that requested it does."""
    if line.call_id is None or line.call_id not in asked:
        return line
    name, given = asked[line.call_id]
    return msgspec.structs.replace(line, tool=line.tool or name, summary=summarise_arguments(given))


def _decode_step_summary(row: Row) -> StepSummary:
    kind = StepKind(row[1])
    ended = kind is StepKind.TOOL and row[4] is not None
    return StepSummary(
        seq=row[0],
        kind=kind,
        started_at=row[2],
        finished_at=row[3],
        message_seq=row[4],
        call_id=None if row[5] is None else CallId(row[5]),
        model=row[6] or "",
        tool=row[7] or "",
        outcome=ToolOutcome(row[8] or ToolOutcome.OK)
        if ended
        else None,  # what is usual is not kept
        recovery=None if row[9] is None else CallRecovery(row[9]),
        exit_code=row[10],
        usage=rows.decode_usage(row[11:]),
    )


def _neighbour(cursor: apsw.Cursor, turn: TurnRow, side: str, order: str) -> TurnId | None:
    found = cursor.execute(
        f"SELECT id FROM turns WHERE session_id = ? AND id {side} ? ORDER BY id {order} LIMIT 1",
        (turn.session_id, turn.id),
    ).fetchone()
    return None if found is None else TurnId(found[0])


def _last_activity(cursor: apsw.Cursor, turn: TurnRow, seq: int) -> float:
    """When everything before it had ended."""
    ((last,),) = cursor.execute(
        "SELECT max(coalesce(finished_at, started_at)) FROM steps WHERE turn_id = ? AND seq <= ?",
        (turn.id, seq),
    ).fetchall()
    return turn.started_at if last is None else max(turn.started_at, float(str(last)))


def _turn_inputs(cursor: apsw.Cursor, turn: TurnRow) -> tuple[TurnInput, ...]:
    """The messages of a turn, from the list in its row. Turns from before there was such a list are
    few: their messages are among those of the session that no turn lists."""
    found = cursor.execute(
        "WITH taken AS (SELECT value AS id FROM turns, json_each(turns.inbox_ids)"
        " WHERE turns.id = ?1 UNION SELECT i.id FROM turns t JOIN inbox i INDEXED BY inbox_unlisted"
        " ON i.session_id = t.session_id AND i.listed IS NULL"
        " WHERE t.id = ?1 AND t.inbox_ids IS NULL)"
        " SELECT i.id, principal, state, accepted_at, ended_at FROM taken JOIN inbox i"
        " ON i.id = taken.id WHERE turn_id = ?1 ORDER BY i.id LIMIT ?2",
        (turn.id, MAX_TIMELINE_ITEMS),
    )
    return tuple(
        TurnInput(
            id=InboxId(row[0]),
            principal=PrincipalId(row[1]),
            state=InboxState(row[2]),
            accepted_at=row[3],
            ended_at=row[4],
        )
        for row in found
    )


def turns_by_id(cursor: apsw.Cursor, turn_ids: Sequence[TurnId]) -> list[TurnOutline]:
    """The turns with these ids, in the order of their beginning."""
    found = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS}, left_as FROM turns"
        " WHERE id IN (SELECT value FROM json_each(?))"
        " ORDER BY started_at, id",
        (msgspec.json.encode(turn_ids).decode(),),
    ).fetchall()
    return [_summary(cursor, row) for row in found]
