"""Queries about sessions: rows, records, usage, expiry, subagents, open turns to recover,
runners and their processes."""

from collections.abc import Mapping
from heapq import heappush, heapreplace
from typing import Any
from urllib.parse import quote

import apsw
import msgspec

from holdfast.core.ids import PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.sessions.reset import EarliestExpiry, ExpiringSession, ExpiryRule
from holdfast.core.sessions.session import (
    ALL_SESSIONS,
    ProcessRow,
    RunnerRow,
    SessionFilter,
    SessionRow,
)
from holdfast.core.turns.model import AuxiliaryTask
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import INTERNAL_PLATFORM, Subagent
from holdfast.core.turns.turn import OpenTurn, StepRow, TurnRow, Usage
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import approvals, outbox
from holdfast.store.sqlite.reads import inbox as inbox_reads
from holdfast.store.sqlite.writes import inbox, transcript

_MAX_SEQ = 2**62  # past every seq
_HAS_ENDED = "ended_at IS NOT NULL"  # as the index `sessions_active` has it
_FIRST_HOUR = -(2**62)  # before every hour
_PLATFORM = "substr(route, 1, instr(route, ':'))"  # as the index `sessions_platform` has it
_BY_PLATFORM = " INDEXED BY sessions_platform"


def session(cursor: apsw.Cursor, session_id: SessionId) -> SessionRow | None:
    row = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM sessions s WHERE id = ?", (session_id,)
    ).fetchone()
    return None if row is None else rows.decode_session(row)


def sessions(
    cursor: apsw.Cursor,
    *,
    limit: int,
    offset: int,
    q: str,
    platform: str,
    include_subagents: bool,
    among: SessionFilter = ALL_SESSIONS,
) -> list[SessionRow]:
    where, bindings = _list_conditions(
        q=q, platform=platform, include_subagents=include_subagents, among=among
    )
    # Only the conditions that are asked for are in the query, and open and ended sessions are read
    # apart: so an index gives a page without a look at the other sessions. It is cut before the
    # prompts are fetched.
    by_platform = platform != "" and among.include is None and not among.suspended
    pages, values = [], []
    for half in _halves(among, searched=bool(q or among.user), by_platform=by_platform):
        conditions, bound = [half, *where], list(bindings)
        if by_platform:
            hour = _last_hour(cursor, conditions, bound, count=limit + offset)
            conditions.append("active_hour >= ?")
            bound.append(hour)
        pages.append(
            f"SELECT * FROM (SELECT * FROM sessions{_BY_PLATFORM if by_platform else ''}"
            f" WHERE {' AND '.join(conditions)} ORDER BY active_at DESC, id LIMIT ?)"
        )
        values += [*bound, limit + offset]
    listed = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM (SELECT * FROM ({' UNION ALL '.join(pages)})"
        " ORDER BY active_at DESC, id LIMIT ? OFFSET ?) s ORDER BY active_at DESC, id",
        (*values, limit, offset),
    )
    return [rows.decode_session(row) for row in listed]


def _halves(among: SessionFilter, *, searched: bool, by_platform: bool) -> tuple[str, ...]:
    """Conditions that select the open and the ended sessions, each in the order of an index. Given
    ids are found by their key, and suspended sessions by an index of theirs; one title or user
    among all is found sooner in the table, read in its own order."""
    if among.include is not None or among.suspended or (searched and not by_platform):
        return ("true" if among.ended is None else f"+({_HAS_ENDED}) = {among.ended:d}",)
    return tuple(
        f"({_HAS_ENDED}) = {ended:d}" for ended in (False, True) if among.ended in (None, ended)
    )


def _last_hour(
    cursor: apsw.Cursor, conditions: list[str], bindings: list[Any], *, count: int
) -> int:
    """The hour in which the last of so many sessions of a platform was active. An index has them in
    the order of hours, so that only those of that hour and later ones are sorted."""
    hour = cursor.execute(
        f"SELECT active_hour FROM sessions{_BY_PLATFORM} WHERE {' AND '.join(conditions)}"
        " ORDER BY active_hour DESC LIMIT 1 OFFSET ?",
        (*bindings, count - 1),
    ).get
    return _FIRST_HOUR if hour is None else int(str(hour))


def _list_conditions(
    *, q: str, platform: str, include_subagents: bool, among: SessionFilter
) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    bindings: list[Any] = []

    def add(condition: str, *values: Any) -> None:
        where.append(condition)
        bindings.extend(values)

    if among.after is not None:
        at, session_id = among.after
        add("active_at <= ? AND (active_at < ? OR id > ?)", at, at, session_id)
        if platform:
            add("active_hour <= CAST(? / 3600 AS INTEGER)", at)
    if q:
        add("title LIKE ? ESCAPE '!'", _like_pattern(q))
    if platform:
        index = "+" if among.suspended else ""  # "+": the index of suspended sessions is read
        add(f"{index}{_PLATFORM} = ?", f"{quote(platform, safe='')}:")
    if not include_subagents:
        add(f"route NOT GLOB '{INTERNAL_PLATFORM}:*'")
    if among.user:
        add("principal LIKE ? ESCAPE '!'", _like_pattern(among.user))
    if among.include is not None:
        encoded = msgspec.json.encode(among.include).decode()
        add("id IN (SELECT value FROM json_each(?))", encoded)
    if among.exclude:
        encoded = msgspec.json.encode(among.exclude).decode()
        add("id NOT IN (SELECT value FROM json_each(?))", encoded)
    if among.suspended is not None:
        add(f"suspended = {among.suspended:d}")  # literally, as the index of suspended ones has it
    return where, bindings


def _like_pattern(text: str) -> str:
    """A LIKE pattern that finds the text anywhere; its special characters are escaped."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text}%"


def route(cursor: apsw.Cursor, key: SessionKey) -> SessionId | None:
    return inbox.route_session(cursor, key)


def transcript_records(cursor: apsw.Cursor, session_id: SessionId) -> list[TranscriptRecord]:
    found = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS} FROM {rows.messages_not_undone()}"
        " WHERE session_id = ? ORDER BY seq",
        (session_id,),
    )
    return [rows.decode_record(row) for row in found]


def context(cursor: apsw.Cursor, session_id: SessionId) -> tuple[int, list[TranscriptRecord]]:
    # Only where the record is still there: an /undo may have taken it with its turn.
    found = cursor.execute(
        "SELECT c.covers, c.covered_seq FROM compactions c JOIN messages m USING (session_id, seq)"
        " WHERE c.session_id = ? AND json_extract(m.body, '$.type') = 'compaction'"
        " AND json_extract(m.body, '$.covers') = c.covers",
        (session_id,),
    ).fetchone()
    if found is None:
        return 0, transcript_records(cursor, session_id)
    covers, covered_seq = found
    listed = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS} FROM {rows.messages_not_undone()}"
        " WHERE session_id = ? AND seq > ? ORDER BY seq",
        (session_id, covered_seq),
    )
    return covers, [rows.decode_record(row) for row in listed]


def auxiliary_usage(cursor: apsw.Cursor, session_id: SessionId) -> Mapping[AuxiliaryTask, Usage]:
    found = cursor.execute(
        f"SELECT errand, {rows.USAGE_COLUMNS} FROM auxiliary WHERE session_id = ?", (session_id,)
    )
    return {AuxiliaryTask(str(row[0])): rows.decode_usage(row[1:]) for row in found}


def records(
    cursor: apsw.Cursor,
    session_id: SessionId,
    *,
    limit: int,
    after: int | None,
    before: int | None,
) -> list[TranscriptRecord]:
    bounds = (session_id, after or 0, before if before is not None else _MAX_SEQ, limit)
    found = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS}, {rows.UNDONE_COLUMN} FROM messages m"
        " WHERE session_id = ? AND seq > ? AND seq < ?"
        f" ORDER BY seq {'DESC' if after is None else 'ASC'} LIMIT ?",
        bounds,
    )
    listed = [rows.decode_record(row) for row in found]
    return listed[::-1] if after is None else listed


def turn(cursor: apsw.Cursor, turn_id: TurnId) -> TurnRow | None:
    row = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS} FROM turns WHERE id = ?", (turn_id,)
    ).fetchone()
    return None if row is None else rows.decode_turn(row)


def steps(cursor: apsw.Cursor, turn_id: TurnId) -> list[StepRow]:
    found = cursor.execute(
        f"SELECT {rows.STEP_COLUMNS} FROM steps WHERE turn_id = ? ORDER BY seq", (turn_id,)
    )
    return [rows.decode_step(row) for row in found]


def open_turns(cursor: apsw.Cursor) -> list[OpenTurn]:
    running: dict[str, list[InboxRow]] = {}
    for row in cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM {inbox_reads.OPEN_ROWS}"
        " AND state = 'running' ORDER BY id"
    ).fetchall():
        running.setdefault(str(row[7]), []).append(rows.decode_inbox_row(row))
    found = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS} FROM turns WHERE state = 'open' ORDER BY started_at, id"
    ).fetchall()
    turns = [rows.decode_turn(row) for row in found]
    return [_open_turn(cursor, turn, tuple(running.get(turn.id, ()))) for turn in turns]


def _open_turn(cursor: apsw.Cursor, turn: TurnRow, running: tuple[InboxRow, ...]) -> OpenTurn:
    turn_steps = steps(cursor, turn.id)
    left = cursor.execute("SELECT left_as FROM turns WHERE id = ?", (turn.id,)).fetchall()[0][0]
    return OpenTurn(
        turn=turn,
        rows=running,
        started_calls=frozenset(
            step.call_id for step in turn_steps if step.call_id and step.finished_at is None
        ),
        usage=transcript.turn_progress(cursor, turn.id).usage,
        model_steps=sum(step.kind == "model" for step in turn_steps),
        approvals=tuple(approvals.approvals_of_turn(cursor, turn.id)),
        exit_reason=None if left is None else TurnExitReason(str(left)),
        stream=outbox.started_delivery(cursor, turn.id),
    )


def runners(cursor: apsw.Cursor) -> list[RunnerRow]:
    found = cursor.execute(f"SELECT {rows.RUNNER_COLUMNS} FROM runners ORDER BY session_id")
    return [rows.decode_runner(row) for row in found]


def processes(cursor: apsw.Cursor, session_id: SessionId) -> list[ProcessRow]:
    found = cursor.execute(
        f"SELECT {rows.PROCESS_COLUMNS} FROM processes WHERE session_id = ?"
        " ORDER BY started_at, id",
        (session_id,),
    )
    return [rows.decode_process(row) for row in found]


def meta(cursor: apsw.Cursor, key: str) -> str | None:
    row = cursor.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


# Subagent sessions are not conversations with a person.
_NO_SUBAGENT = "NOT EXISTS (SELECT 1 FROM children c WHERE c.session_id = s.id)"
_CURRENT = "(SELECT session_id FROM routes WHERE key = ?1)"
_IN_REACH = f"(s.route = ?1 OR s.principal = ?2 OR s.id = {_CURRENT}) AND {_NO_SUBAGENT}"
_USAGE_TOTALS = ", ".join(
    f"coalesce(sum({column}), 0)" for column in rows.USAGE_COLUMNS.split(", ")
)


def _in_last_hours(condition: str) -> str:
    """The ids of the last ?3 sessions, and of others that were active in the same hour as the last
    of those: an index has the sessions of a person or a route in the order of hours."""
    listed = f"FROM sessions s WHERE {condition} AND {_NO_SUBAGENT}"
    hour = f"SELECT s.active_hour {listed} ORDER BY s.active_hour DESC LIMIT 1 OFFSET ?3 - 1"
    return f"SELECT s.id {listed} AND s.active_hour >= coalesce(({hour}), {_FIRST_HOUR})"


_OF_LAST_HOURS = (
    f"{_in_last_hours('s.route = ?1')} UNION ALL {_in_last_hours('s.principal = ?2')}"
    f" UNION ALL SELECT s.id FROM sessions s WHERE s.id = {_CURRENT} AND {_NO_SUBAGENT}"
)
# The ?4 sessions of all people that were active last.
_LAST_ACTIVE = " UNION ALL ".join(
    f"SELECT * FROM (SELECT * FROM sessions WHERE ({_HAS_ENDED}) = {ended}"
    " ORDER BY active_at DESC, id LIMIT ?4)"
    for ended in (0, 1)
)
_MANY = 10  # sessions in an hour, in multiples of the limit


def visible_sessions(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None, limit: int
) -> list[SessionRow]:
    """The last sessions that a person may see, from the sessions of the last hours. A person who
    has very many of those is likely to have enough among the last of all people, which an index
    has in their exact order."""
    reach, many = (route, principal, limit), _MANY * limit
    count = cursor.execute(f"SELECT count(*) FROM ({_OF_LAST_HOURS} LIMIT ?4)", (*reach, many)).get
    if count == many:
        last = f"(SELECT * FROM ({_LAST_ACTIVE}) ORDER BY active_at DESC, id LIMIT ?4) s"
        found = _visible_among(cursor, f"{last} WHERE {_IN_REACH}", (*reach, many))
        if len(found) == limit:
            return found
    return _visible_among(cursor, f"sessions s WHERE s.id IN ({_OF_LAST_HOURS})", reach)


def _visible_among(cursor: apsw.Cursor, source: str, bindings: tuple[Any, ...]) -> list[SessionRow]:
    found = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM (SELECT s.* FROM {source}"
        " ORDER BY s.active_at DESC, s.id DESC LIMIT ?3) s ORDER BY active_at DESC, id DESC",
        bindings,
    )
    return [rows.decode_session(row) for row in found]


def visible_session(
    cursor: apsw.Cursor,
    *,
    session_id: SessionId,
    route: SessionKey,
    principal: PrincipalId | None,
) -> SessionRow | None:
    row = cursor.execute(
        f"SELECT {rows.SESSION_COLUMNS} FROM sessions s WHERE {_IN_REACH} AND s.id = ?3",
        (route, principal, session_id),
    ).fetchone()
    return None if row is None else rows.decode_session(row)


def last_turn(cursor: apsw.Cursor, session_id: SessionId) -> TurnRow | None:
    row = cursor.execute(
        f"SELECT {rows.TURN_COLUMNS} FROM turns WHERE session_id = ? ORDER BY id DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if row is None else rows.decode_turn(row)


def last_source(cursor: apsw.Cursor, session_id: SessionId) -> Source | None:
    """The source of the last message of a session, found by the deliveries of its last turns:
    there is no index from a session to its messages. Messages of subagents and jobs have no
    person as their source."""
    found = cursor.execute(
        "SELECT json_extract(i.body, '$.source') FROM (SELECT id FROM turns"
        " WHERE session_id = ? ORDER BY id DESC LIMIT 50) t"
        " JOIN outbox o ON o.turn_id = t.id JOIN inbox i ON i.id = o.inbox_id"
        f" WHERE i.platform <> '{INTERNAL_PLATFORM}'"
        " ORDER BY t.id DESC, o.seq DESC LIMIT 1",
        (session_id,),
    ).fetchone()
    return None if found is None else msgspec.json.decode(str(found[0]), type=Source)


def session_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """The usage of a session: of its ended turns, and of auxiliary calls."""
    return _usage_total(cursor, f"({_SESSION_USAGE}) WHERE session_id = ?1", session_id)


def auxiliary_total(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    return _usage_total(cursor, "auxiliary WHERE session_id = ?1", session_id)


def _usage_total(cursor: apsw.Cursor, source: str, *bindings: str | None) -> Usage:
    (total,) = cursor.execute(f"SELECT {_USAGE_TOTALS} FROM {source}", bindings).fetchall()
    return rows.decode_usage(total)


# Of turns and sessions after the mark (see migration 23).
_UNCOUNTED_ROWS = (
    f"SELECT session_id, {rows.USAGE_COLUMNS} FROM turns WHERE id > (SELECT turn FROM usage_mark)"
    f" UNION ALL SELECT session_id, {rows.USAGE_COLUMNS} FROM auxiliary"
    " WHERE session_id > (SELECT session FROM usage_mark)"
)
_SESSION_USAGE = (
    f"SELECT session_id, {rows.USAGE_COLUMNS} FROM usage_counted UNION ALL {_UNCOUNTED_ROWS}"
)
# Usage that the store has not counted yet, with the conversation that it belongs to as `s`.
_UNCOUNTED = (
    f"SELECT {', '.join(f'u.{column}' for column in rows.USAGE_COLUMNS.split(', '))}"
    f" FROM ({_UNCOUNTED_ROWS}) u LEFT JOIN children c ON c.session_id = u.session_id"
    " JOIN sessions s ON s.id = coalesce(c.root_id, u.session_id)"
)
# The chat's current session, if it is another person's, at another chat.
_ELSEWHERE = (
    f"(SELECT s.id FROM sessions s WHERE s.id = {_CURRENT} AND s.route <> ?1"
    f" AND (s.principal = ?2) IS NOT TRUE AND {_NO_SUBAGENT})"
)
_VISIBLE_USAGE = " UNION ALL ".join(
    (
        f"SELECT {rows.USAGE_COLUMNS} FROM usage_sums WHERE place = '' AND principal = ?2",
        f"SELECT {rows.USAGE_COLUMNS} FROM usage_sums WHERE place = ?1 AND principal IS NOT ?2",
        f"SELECT {rows.USAGE_COLUMNS} FROM usage_sums WHERE place = {_ELSEWHERE}",
        f"SELECT {rows.USAGE_COLUMNS} FROM usage_counted WHERE session_id = {_ELSEWHERE}",
        f"{_UNCOUNTED} WHERE s.route = ?1 OR s.principal = ?2 OR s.id = {_CURRENT}",
    )
)


def visible_usage(
    cursor: apsw.Cursor, *, route: SessionKey, principal: PrincipalId | None
) -> Usage:
    """The usage of the sessions that a person may see, and of the subagents that worked for
    them."""
    return _usage_total(cursor, f"({_VISIBLE_USAGE})", route, principal)


def expiring_sessions(
    cursor: apsw.Cursor,
    *,
    deadline: ExpiryRule,
    earliest: EarliestExpiry,
    limit: int,
) -> list[ExpiringSession]:
    """In the order of their last activity, until none of the others can expire sooner than those
    found: `earliest` never falls as that activity gets later."""
    found = cursor.execute(
        f"SELECT id, route, active_at FROM sessions WHERE ({_HAS_ENDED}) = 0 AND NOT suspended"
        " AND NOT coalesce(resume_pending, 0) ORDER BY active_at, id DESC"
    )
    soonest: list[tuple[float, int, ExpiringSession]] = []  # a heap, the last to expire first
    for number, (session_id, route, active_at) in enumerate(found):
        possible = earliest(active_at)
        if possible is None or (len(soonest) == limit and possible >= -soonest[0][0]):
            break
        expires_at = deadline(SessionKey(str(route)), active_at)
        if expires_at is None or (len(soonest) == limit and expires_at >= -soonest[0][0]):
            continue
        expiring = ExpiringSession(
            session_id=SessionId(str(session_id)), active_at=active_at, expires_at=expires_at
        )
        add = heapreplace if len(soonest) == limit else heappush
        add(soonest, (-expires_at, -number, expiring))
    return [expiring for _, _, expiring in sorted(soonest, reverse=True)]


def sessions_unused_since(cursor: apsw.Cursor, *, before: float, limit: int) -> list[SessionId]:
    halves = " UNION ALL ".join(
        f"SELECT * FROM (SELECT id, active_at FROM sessions WHERE ({_HAS_ENDED}) = {ended}"
        " AND active_at < ?1 ORDER BY active_at LIMIT ?2)"
        for ended in (0, 1)
    )
    found = cursor.execute(
        f"SELECT id FROM ({halves}) ORDER BY active_at LIMIT ?2", (before, limit)
    )
    return [SessionId(str(row[0])) for row in found]


_ROOT = "coalesce((SELECT root_id FROM children WHERE session_id = ?1), ?1)"
_SUBAGENTS_BELOW = (
    "WITH RECURSIVE below (id) AS"
    f" (SELECT session_id FROM children WHERE root_id = {_ROOT} AND parent_id = ?1"
    " UNION SELECT c.session_id FROM below CROSS JOIN children c"
    f" ON c.root_id = {_ROOT} AND c.parent_id = below.id)"
)


def subagent(cursor: apsw.Cursor, session_id: SessionId) -> Subagent | None:
    found = cursor.execute(
        "SELECT body FROM children WHERE session_id = ?", (session_id,)
    ).fetchone()
    return None if found is None else rows.decode_subagent(str(found[0]))


def subagents_below(cursor: apsw.Cursor, session_id: SessionId) -> list[Subagent]:
    found = cursor.execute(
        f"{_SUBAGENTS_BELOW} SELECT body FROM children JOIN below ON session_id = below.id"
        " ORDER BY created_at, session_id",
        (session_id,),
    )
    return [rows.decode_subagent(str(row[0])) for row in found]


def subagents_usage(cursor: apsw.Cursor, session_id: SessionId) -> Usage:
    """The usage of subagents: of their ended turns, and of auxiliary calls. The store has sums
    for conversations; the subagents of a subagent are few."""
    above = cursor.execute("SELECT 1 FROM children WHERE session_id = ?", (session_id,)).fetchone()
    if above is None:
        source = (
            f"(SELECT {rows.USAGE_COLUMNS} FROM usage_sums WHERE place = ?1"
            f" UNION ALL {_UNCOUNTED} WHERE +c.root_id = ?1)"
        )
    else:
        source = f"({_SESSION_USAGE}) WHERE session_id IN ({_SUBAGENTS_BELOW} SELECT id FROM below)"
    return _usage_total(cursor, source, session_id)


def running_subagents(cursor: apsw.Cursor) -> list[tuple[InboxRow, bool]]:
    """Subagents whose work has not ended, and whether its result is still needed."""
    found = cursor.execute(
        f"SELECT {rows.INBOX_COLUMNS} FROM inbox INDEXED BY inbox_open"
        " WHERE ended_at IS NULL AND platform = ? ORDER BY id",
        (INTERNAL_PLATFORM,),
    ).fetchall()
    listed = [rows.decode_inbox_row(row) for row in found]
    return [(row, _is_awaited(cursor, row.inbound.subagent)) for row in listed]


def _is_awaited(cursor: apsw.Cursor, subagent: Subagent | None) -> bool:
    """Whether the result is needed: by the turn that waits for it, else by the conversation that
    gets the reply."""
    if subagent is None:
        return False
    if subagent.turn_id is not None:
        query = "SELECT 1 FROM turns WHERE id = ? AND state = 'open'"
        return cursor.execute(query, (subagent.turn_id,)).fetchone() is not None
    query = "SELECT 1 FROM sessions WHERE id = ? AND ended_at IS NULL"
    return cursor.execute(query, (subagent.parent,)).fetchone() is not None
