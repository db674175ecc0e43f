"""What can be asked of the tables: plain functions over a cursor, each in one snapshot."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import apsw
import msgspec

from holdfast.core.approval import Approval, StandingRule
from holdfast.core.auxiliary import Errand
from holdfast.core.child import HOUSE
from holdfast.core.ids import (
    ApprovalId,
    DeliveryId,
    InboxId,
    PrincipalId,
    SessionId,
    SessionKey,
    TurnId,
)
from holdfast.core.inbox import InboxRow, InboxState
from holdfast.core.message import Record
from holdfast.core.outbox import Begun, DeliveryRow, DeliveryState
from holdfast.core.session import ProcessRow, RunnerRow, SessionRow
from holdfast.core.stopping import LeftAs
from holdfast.core.turn import OpenTurn, StepRow, TurnRow, Usage
from holdfast.store import rows
from holdfast.store.writes import inbox, streams, transcript

# Named, because the planner would rather walk all that was ever accepted than sort a few.
_OPEN_INBOX = "inbox INDEXED BY inbox_open WHERE ended_at IS NULL"
_BEYOND = 2**62  # past every seq


def session(cursor: apsw.Cursor, session_id: SessionId) -> SessionRow | None:
    row = cursor.execute(
        f"SELECT {rows.SESSION} FROM sessions s WHERE id = ?", (session_id,)
    ).fetchone()
    return None if row is None else rows.session_row(row)


def sessions(
    cursor: apsw.Cursor, *, limit: int, offset: int, q: str, platform: str, children: bool
) -> list[SessionRow]:
    # Sorted and cut before the prompts are fetched, which the sorter would otherwise carry.
    listed = cursor.execute(
        f"SELECT {rows.SESSION} FROM (SELECT * FROM sessions"
        " WHERE (?3 = '' OR title LIKE ?3 ESCAPE '!')"
        " AND (?4 = '' OR substr(route, 1, length(?4)) = ?4)"
        f" AND (?5 OR route NOT GLOB '{HOUSE}:*')"
        " ORDER BY active_at DESC, id LIMIT ?1 OFFSET ?2) s ORDER BY active_at DESC, id",
        (
            limit,
            offset,
            _like(q) if q else "",
            f"{quote(platform, safe='')}:" if platform else "",
            children,
        ),
    )
    return [rows.session_row(row) for row in listed]


def _like(text: str) -> str:
    """A pattern that is found wherever the text is, whatever characters it is made of."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def route(cursor: apsw.Cursor, key: SessionKey) -> SessionId | None:
    return inbox.route_session(cursor, key)


def messages(cursor: apsw.Cursor, session_id: SessionId) -> list[Record]:
    found = cursor.execute(
        f"SELECT {rows.RECORD} FROM standing WHERE session_id = ? ORDER BY seq", (session_id,)
    )
    return [rows.record(row) for row in found]


def context(cursor: apsw.Cursor, session_id: SessionId) -> tuple[int, list[Record]]:
    # Only where the record is still there: an /undo may have taken it with its turn.
    found = cursor.execute(
        "SELECT c.covers FROM compactions c JOIN messages m USING (session_id, seq)"
        " WHERE c.session_id = ? AND json_extract(m.body, '$.type') = 'compaction'"
        " AND json_extract(m.body, '$.covers') = c.covers",
        (session_id,),
    ).fetchone()
    if found is None:
        return 0, messages(cursor, session_id)
    covers: int = found[0]
    listed = cursor.execute(
        f"SELECT {rows.RECORD} FROM standing WHERE session_id = ? ORDER BY seq LIMIT -1 OFFSET ?",
        (session_id, covers),
    )
    return covers, [rows.record(row) for row in listed]


def auxiliary_usage(cursor: apsw.Cursor, session_id: SessionId) -> Mapping[Errand, Usage]:
    found = cursor.execute(
        f"SELECT errand, {rows.USAGE} FROM auxiliary WHERE session_id = ?", (session_id,)
    )
    return {Errand(str(row[0])): rows.usage(row[1:]) for row in found}


def records(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    limit: int,
    after: int | None,
    before: int | None,
) -> list[Record]:
    bounds = (session_id, after or 0, before if before is not None else _BEYOND, limit)
    found = cursor.execute(
        f"SELECT {rows.RECORD}, {rows.UNDONE} FROM messages m"
        " WHERE session_id = ? AND seq > ? AND seq < ?"
        f" ORDER BY seq {'DESC' if after is None else 'ASC'} LIMIT ?",
        bounds,
    )
    listed = [rows.record(row) for row in found]
    return listed[::-1] if after is None else listed


def inbox_of(cursor: apsw.Cursor, session_id: SessionId) -> list[InboxId]:
    found = cursor.execute("SELECT id FROM inbox WHERE session_id = ?", (session_id,))
    return [InboxId(row[0]) for row in found]


def turn(cursor: apsw.Cursor, turn_id: TurnId) -> TurnRow | None:
    row = cursor.execute(f"SELECT {rows.TURN} FROM turns WHERE id = ?", (turn_id,)).fetchone()
    return None if row is None else rows.turn_row(row)


def steps(cursor: apsw.Cursor, turn_id: TurnId) -> list[StepRow]:
    found = cursor.execute(
        f"SELECT {rows.STEP} FROM steps WHERE turn_id = ? ORDER BY seq", (turn_id,)
    )
    return [rows.step_row(row) for row in found]


def open_turns(cursor: apsw.Cursor) -> list[OpenTurn]:
    running: dict[str, list[InboxRow]] = {}
    for row in cursor.execute(
        f"SELECT {rows.INBOX} FROM {_OPEN_INBOX} AND state = 'running' ORDER BY id"
    ).fetchall():
        running.setdefault(str(row[7]), []).append(rows.inbox_row(row))
    found = cursor.execute(
        f"SELECT {rows.TURN} FROM turns WHERE state = 'open' ORDER BY started_at, id"
    ).fetchall()
    turns = [rows.turn_row(row) for row in found]
    return [_open_turn(cursor, turn, tuple(running.get(turn.id, ()))) for turn in turns]


def _open_turn(cursor: apsw.Cursor, turn: TurnRow, running: tuple[InboxRow, ...]) -> OpenTurn:
    taken = steps(cursor, turn.id)
    left = cursor.execute("SELECT left_as FROM turns WHERE id = ?", (turn.id,)).fetchall()[0][0]
    return OpenTurn(
        turn=turn,
        rows=running,
        started_calls=frozenset(
            step.call_id for step in taken if step.call_id and step.finished_at is None
        ),
        usage=transcript.taken(cursor, turn.id).usage,
        model_steps=sum(step.kind == "model" for step in taken),
        approvals=tuple(_approvals(cursor, "turn_id = ? ORDER BY number", turn.id)),
        left_as=None if left is None else LeftAs(str(left)),
        stream=_stream(cursor, turn.id),
    )


def approval(cursor: apsw.Cursor, approval_id: ApprovalId) -> Approval | None:
    found = _approvals(cursor, "id = ?", approval_id)
    return found[0] if found else None


def approvals(
    cursor: apsw.Cursor, *, limit: int, pending: bool, session_id: SessionId | None
) -> list[Approval]:
    return _approvals(
        cursor,
        "(?1 = 0 OR state = 'pending') AND (?2 IS NULL OR session_id = ?2)"
        " ORDER BY asked_at DESC, number DESC LIMIT ?3",
        pending,
        session_id,
        limit,
    )


def _approvals(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[Approval]:
    found = cursor.execute(f"SELECT {rows.APPROVAL} FROM approvals WHERE {which}", bindings)
    return [rows.approval(row) for row in found]


def standing_rules(
    cursor: apsw.Cursor, *, principal: PrincipalId | None, rule: str | None
) -> list[StandingRule]:
    found = cursor.execute(
        f"SELECT {rows.RULE} FROM approval_rules WHERE (?1 IS NULL OR principal = ?1)"
        " AND (?2 IS NULL OR rule = ?2) ORDER BY created_at, id",
        (principal, rule),
    )
    return [rows.standing_rule(row) for row in found]


def queued(cursor: apsw.Cursor) -> list[InboxRow]:
    found = cursor.execute(
        f"SELECT {rows.INBOX} FROM {_OPEN_INBOX} AND state = 'queued' ORDER BY id"
    )
    return [rows.inbox_row(row) for row in found]


def inbox_row(cursor: apsw.Cursor, inbox_id: InboxId) -> InboxRow | None:
    row = cursor.execute(f"SELECT {rows.INBOX} FROM inbox WHERE id = ?", (inbox_id,)).fetchone()
    return None if row is None else rows.inbox_row(row)


def answers(cursor: apsw.Cursor, inbox_id: InboxId) -> list[DeliveryRow]:
    """A row that was merged shares the answers of the row, or else the turn, it went into."""
    seen: set[InboxId] = set()
    row = inbox_row(cursor, inbox_id)
    while row is not None and row.merged_into is not None and row.id not in seen:
        seen.add(row.id)
        row = inbox_row(cursor, row.merged_into)
    if row is None:
        return []
    if row.state is InboxState.MERGED:
        return _deliveries(cursor, "turn_id = ? AND kind = 'reply'", row.turn_id)
    return _deliveries(cursor, "inbox_id = ?", row.id)


def _deliveries(cursor: apsw.Cursor, which: str, *bindings: Any) -> list[DeliveryRow]:
    found = cursor.execute(
        f"SELECT {rows.DELIVERY} FROM outbox WHERE {which} ORDER BY seq", bindings
    )
    return [rows.delivery_row(row) for row in found]


def undelivered(cursor: apsw.Cursor) -> list[DeliveryRow]:
    """What has its text and is not settled, each with its parts. A stream is its turn's."""
    found = _deliveries(cursor, "state IN ('pending', 'sending', 'unknown')")
    return [msgspec.structs.replace(row, parts=streams.read(cursor, row.id)) for row in found]


def _stream(cursor: apsw.Cursor, turn_id: TurnId) -> Begun | None:
    """The reply that a turn has begun to show, as far as it is known what was shown."""
    found = cursor.execute(
        "SELECT id FROM outbox WHERE turn_id = ? AND state = 'streaming'", (turn_id,)
    ).fetchone()
    if found is None:
        return None
    delivery_id = DeliveryId(str(found[0]))
    return Begun(id=delivery_id, parts=streams.read(cursor, delivery_id))


def ledger(cursor: apsw.Cursor) -> Mapping[InboxState, int]:
    """Every state has a figure; the two halves are counted on the two partial indexes."""
    counts = dict.fromkeys(InboxState, 0)
    for half in ("IS NULL", "IS NOT NULL"):
        for state, count in cursor.execute(
            f"SELECT state, count(*) FROM inbox WHERE ended_at {half} GROUP BY state"
        ):
            counts[InboxState(state)] += count
    for state, count in cursor.execute("SELECT state, count FROM pruned"):
        counts[InboxState(state)] += count
    return counts


def outbox_ledger(cursor: apsw.Cursor) -> Mapping[DeliveryState, int]:
    counts = dict.fromkeys(DeliveryState, 0)
    for state, count in cursor.execute("SELECT state, count(*) FROM outbox GROUP BY state"):
        counts[DeliveryState(state)] = count
    return counts


def runners(cursor: apsw.Cursor) -> list[RunnerRow]:
    found = cursor.execute(f"SELECT {rows.RUNNER} FROM runners ORDER BY session_id")
    return [rows.runner_row(row) for row in found]


def processes(cursor: apsw.Cursor, session_id: SessionId) -> list[ProcessRow]:
    found = cursor.execute(
        f"SELECT {rows.PROCESS} FROM processes WHERE session_id = ? ORDER BY started_at, id",
        (session_id,),
    )
    return [rows.process_row(row) for row in found]


def cursor_value(cursor: apsw.Cursor, platform: str, account: str, name: str) -> str | None:
    row = cursor.execute(
        "SELECT value FROM cursors WHERE platform = ? AND account = ? AND name = ?",
        (platform, account, name),
    ).fetchone()
    return None if row is None else str(row[0])


def meta(cursor: apsw.Cursor, key: str) -> str | None:
    row = cursor.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])
