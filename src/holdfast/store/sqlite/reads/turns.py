"""What can be asked about turns: those of a session or of all, and the course of one by pages."""

from collections.abc import Mapping, Sequence

import apsw
import msgspec

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.call_line import told_in_a_line
from holdfast.core.messages.inbox import ENDS, InboxState
from holdfast.core.messages.message import Outcome, TakenUp
from holdfast.core.turns.stop import LeftAs
from holdfast.core.turns.timeline import (
    LOOKED_AT,
    MOST,
    Course,
    StepLine,
    TakenMessage,
    TurnChoice,
    TurnOutline,
)
from holdfast.core.turns.turn import StepKind, TurnRow, TurnState, Usage
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import approvals, inbox, outbox
from holdfast.store.sqlite.rows import Row
from holdfast.store.sqlite.writes import stopping, transcript

_ENDLESS = 9e15  # past every time
_ARGUMENTS = 20_000  # characters of a call that are looked at to tell what it is about
_ENDS = ", ".join(f"'{state.value}'" for state in sorted(ENDS))
# Of its message only what names it: the words themselves are in the transcript.
_STEP = (
    "p.seq, p.kind, p.started_at, p.finished_at, p.message_seq, p.call_id,"
    " json_extract(m.body, '$.model'), json_extract(m.body, '$.name'),"
    " json_extract(m.body, '$.outcome'), json_extract(m.body, '$.taken_up'),"
    " p.input_tokens, p.output_tokens, p.cached_tokens, p.reasoning_tokens"
)


def of_session(
    cursor: apsw.Cursor, *, session_id: SessionId, limit: int, before: TurnId | None
) -> list[TurnOutline]:
    found = cursor.execute(
        f"SELECT {rows.TURN}, left_as FROM turns WHERE session_id = ?1 AND (?2 IS NULL OR"
        " (started_at, id) < (SELECT t.started_at, t.id FROM turns t WHERE t.id = ?2))"
        " ORDER BY started_at DESC, id DESC LIMIT ?3",
        (session_id, before, limit),
    ).fetchall()
    return [_outline(cursor, row) for row in found]


def recent(cursor: apsw.Cursor, *, choice: TurnChoice) -> list[TurnOutline]:
    """By their ids, which sort by when they were made: no index is kept up for this."""
    if choice.state is TurnState.OPEN:
        which = f"SELECT {rows.TURN}, left_as FROM turns INDEXED BY turns_open WHERE state = 'open'"
        which += " AND (?1 IS NULL OR id < ?1)"
    else:
        which = (
            f"SELECT {rows.TURN}, left_as FROM (SELECT * FROM turns WHERE ?1 IS NULL OR id < ?1"
            f" ORDER BY id DESC LIMIT {LOOKED_AT}) WHERE (?2 IS NULL OR state = ?2)"
        )
    order = "coalesce(ended_at - started_at, -1.0) DESC, id DESC" if choice.slowest else "id DESC"
    found = cursor.execute(
        f"{which} ORDER BY {order} LIMIT ?3", (choice.before, choice.state, choice.limit)
    ).fetchall()
    return [_outline(cursor, row) for row in found]


def course(cursor: apsw.Cursor, *, turn_id: TurnId, after: int, limit: int) -> Course | None:
    found = cursor.execute(
        f"SELECT {rows.TURN}, left_as FROM turns WHERE id = ?", (turn_id,)
    ).fetchone()
    if found is None:
        return None
    outline = _outline(cursor, found)
    lines = _steps(cursor, turn_id, after=after, limit=limit + 1)
    turn = outline.turn
    return Course(
        outline=outline,
        messages=_messages(cursor, turn),
        steps=tuple(lines[:limit]),
        more=len(lines) > limit,
        since=_end_of(cursor, turn, after),
        approvals=tuple(approvals.of_turn(cursor, turn_id)[:MOST]),
        deliveries=tuple(outbox.of_turn(cursor, turn_id, limit=MOST)),
        stops=tuple(stopping.between(cursor, turn.started_at, turn.ended_at or _ENDLESS)),
        previous=_neighbour(cursor, turn, "<", "DESC"),
        next=_neighbour(cursor, turn, ">", "ASC"),
    )


def used(
    cursor: apsw.Cursor, *, turn_id: TurnId, after: int, limit: int
) -> tuple[Mapping[str, Usage], int]:
    """What so many steps have used, by model ("": nobody knows of which), and the last's seq;
    0: there are none."""
    spent: dict[str, Usage] = {}
    last = 0
    for row in cursor.execute(
        f"SELECT p.seq, json_extract(m.body, '$.model'), {rows.USAGE} FROM steps p"
        " LEFT JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq"
        " AND p.kind = 'model' WHERE p.turn_id = ? AND p.seq > ? ORDER BY p.seq LIMIT ?",
        (turn_id, after, limit),
    ):
        last, model, usage = row[0], row[1] or "", rows.usage(row[2:])
        if any(row[2:]):
            spent[model] = spent.get(model, Usage()) + usage
    return spent, last


def _outline(cursor: apsw.Cursor, row: Row) -> TurnOutline:
    turn = rows.turn_row(row[:-1])
    last = cursor.execute(
        "SELECT seq FROM steps WHERE turn_id = ? ORDER BY seq DESC LIMIT 1", (turn.id,)
    ).fetchone()
    is_open = turn.state is TurnState.OPEN
    return TurnOutline(
        turn=turn,
        usage=transcript.taken(cursor, turn.id).usage if is_open else turn.usage,
        steps=0 if last is None else last[0],
        resumed=stopping.lives(cursor, turn.started_at, turn.ended_at or _ENDLESS),
        left_as=LeftAs(row[-1]) if is_open and row[-1] is not None else None,
    )


def _steps(cursor: apsw.Cursor, turn_id: TurnId, *, after: int, limit: int) -> list[StepLine]:
    found = cursor.execute(
        f"SELECT {_STEP} FROM steps p LEFT JOIN messages m ON m.session_id = p.session_id"
        " AND m.seq = p.message_seq WHERE p.turn_id = ? AND p.seq > ? ORDER BY p.seq LIMIT ?",
        (turn_id, after, limit),
    )
    lines = [_line(row) for row in found]
    called = {line.call_id for line in lines if line.call_id is not None}
    asked = _calls(cursor, turn_id, lines) if called else {}
    return [_named(line, asked) for line in lines]


def _calls(
    cursor: apsw.Cursor, turn_id: TurnId, lines: Sequence[StepLine]
) -> Mapping[CallId, tuple[str, str]]:
    """Name and arguments of what the replies asked for that are among these steps, and of the last
    one before them: a page may begin amidst the calls of one reply."""
    found = cursor.execute(
        "SELECT json_extract(c.value, '$.id'), json_extract(c.value, '$.name'),"
        f" substr(json_extract(c.value, '$.arguments'), 1, {_ARGUMENTS})"
        " FROM steps p JOIN messages m ON m.session_id = p.session_id AND m.seq = p.message_seq,"
        " json_each(m.body, '$.calls') c WHERE p.turn_id = ?1 AND p.kind = 'model'"
        " AND p.seq <= ?3 AND p.seq >= coalesce((SELECT max(seq) FROM steps WHERE turn_id = ?1"
        " AND kind = 'model' AND seq < ?2), 0)",
        (turn_id, lines[0].seq, lines[-1].seq),
    )
    return {CallId(call_id): (name, given or "") for call_id, name, given in found}


def _named(line: StepLine, asked: Mapping[CallId, tuple[str, str]]) -> StepLine:
    """What runs has no result yet that could name it; the reply that asked for it does."""
    if line.call_id is None or line.call_id not in asked:
        return line
    name, given = asked[line.call_id]
    return msgspec.structs.replace(line, tool=line.tool or name, about=told_in_a_line(given))


def _line(row: Row) -> StepLine:
    kind = StepKind(row[1])
    ended = kind is StepKind.TOOL and row[4] is not None
    return StepLine(
        seq=row[0],
        kind=kind,
        started_at=row[2],
        finished_at=row[3],
        message_seq=row[4],
        call_id=None if row[5] is None else CallId(row[5]),
        model=row[6] or "",
        tool=row[7] or "",
        outcome=Outcome(row[8] or Outcome.OK) if ended else None,  # what is usual is not kept
        taken_up=None if row[9] is None else TakenUp(row[9]),
        usage=rows.usage(row[10:]),
    )


def _neighbour(cursor: apsw.Cursor, turn: TurnRow, side: str, order: str) -> TurnId | None:
    found = cursor.execute(
        f"SELECT id FROM turns WHERE session_id = ? AND (started_at, id) {side} (?, ?)"
        f" ORDER BY started_at {order}, id {order} LIMIT 1",
        (turn.session_id, turn.started_at, turn.id),
    ).fetchone()
    return None if found is None else TurnId(found[0])


def _end_of(cursor: apsw.Cursor, turn: TurnRow, seq: int) -> float:
    """When all that stands before is over."""
    ((last,),) = cursor.execute(
        "SELECT max(coalesce(finished_at, started_at)) FROM steps WHERE turn_id = ? AND seq <= ?",
        (turn.id, seq),
    ).fetchall()
    return turn.started_at if last is None else max(turn.started_at, float(str(last)))


def _messages(cursor: apsw.Cursor, turn: TurnRow) -> tuple[TakenMessage, ...]:
    """Found by their ends, which the turn's own writes have given them: no index knows the turn
    of a message, and none is to be kept up with every message for this alone."""
    columns = "id, principal, state, accepted_at, ended_at"
    if turn.ended_at is None:
        which = f"SELECT {columns} FROM {inbox.OPEN} AND turn_id = ?1"
    else:
        which = (
            f"SELECT {columns} FROM inbox INDEXED BY inbox_ended WHERE ended_at = ?2"
            f" AND state IN ({_ENDS}) AND turn_id = ?1 AND ended_at IS NOT NULL"
        )
    steered = (
        f"SELECT {columns} FROM inbox INDEXED BY inbox_ended WHERE state = 'merged'"
        " AND ended_at IN (SELECT started_at FROM steps WHERE turn_id = ?1 AND kind = 'steer')"
        " AND turn_id = ?1 AND ended_at IS NOT NULL"
    )
    found = cursor.execute(
        f"{which} UNION {steered} ORDER BY id LIMIT ?3", (turn.id, turn.ended_at, MOST)
    )
    return tuple(
        TakenMessage(
            id=InboxId(row[0]),
            principal=PrincipalId(row[1]),
            state=InboxState(row[2]),
            accepted_at=row[3],
            ended_at=row[4],
        )
        for row in found
    )


def among(cursor: apsw.Cursor, turn_ids: Sequence[TurnId]) -> list[TurnOutline]:
    """These, the first begun first."""
    found = cursor.execute(
        f"SELECT {rows.TURN}, left_as FROM turns WHERE id IN (SELECT value FROM json_each(?))"
        " ORDER BY started_at, id",
        (msgspec.json.encode(turn_ids).decode(),),
    ).fetchall()
    return [_outline(cursor, row) for row in found]
