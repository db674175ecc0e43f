"""Finding: a question asked of the index, and its answer read from the store."""

from typing import Any
from urllib.parse import quote

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.sessions.search import MOST_WORDS, FoundRecord, SearchQuery
from holdfast.store.search.question import Term, expression, terms
from holdfast.store.search.said import said_in
from holdfast.store.search.snippet import pieces
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import reads

# What people and agents said counts for more than what their tools printed. Scores are rounded,
# so that of two that fit as well the newer one comes first.
_SCORE = "round(bm25(words, 1.0, 0.3), 1)"
_OF_ROUTE = "SELECT 1 FROM state.sessions s WHERE s.id = e.session_id AND "


def find(cursor: apsw.Cursor, query: SearchQuery) -> list[FoundRecord]:
    """The best first. A message that is gone from the store, or was taken back, is not found,
    whatever the index still has of it."""
    wanted = terms(query.words[:MOST_WORDS])
    sought = expression(wanted)
    if not sought:
        return []
    where, bindings = _filters(query)
    found = cursor.execute(
        f"SELECT e.session_id, e.seq, {_SCORE} AS score FROM words JOIN entries e"
        f" ON e.id = words.rowid WHERE words MATCH ? {where}"
        " ORDER BY score, e.created_at DESC, e.session_id, e.seq DESC LIMIT ?",
        (sought, *bindings, query.limit),
    ).fetchall()
    records = (_record(cursor, SessionId(str(row[0])), row[1], wanted) for row in found)
    return [record for record in records if record is not None]


def _filters(query: SearchQuery) -> tuple[str, list[Any]]:
    parts: list[str] = []
    bindings: list[Any] = []
    if query.session_id is not None:
        parts.append("e.session_id = ?")
        bindings.append(query.session_id)
    if query.since:
        parts.append("e.created_at >= ?")
        bindings.append(query.since)
    if query.platform:
        prefix = f"{quote(query.platform, safe='')}:"
        parts.append(f"EXISTS ({_OF_ROUTE} substr(s.route, 1, length(?)) = ?)")
        bindings += [prefix, prefix]
    if query.visible is not None:
        parts.append(f"EXISTS ({_OF_ROUTE} (s.route = ? OR s.principal = ?))")
        bindings += [query.visible.route, query.visible.principal]
    return "".join(f" AND {part}" for part in parts), bindings


def _record(
    cursor: apsw.Cursor, session_id: SessionId, seq: Any, wanted: list[Term]
) -> FoundRecord | None:
    row = cursor.execute(
        f"SELECT {rows.RECORD} FROM state.standing WHERE session_id = ? AND seq = ?",
        (session_id, seq),
    ).fetchone()
    session = reads.session(cursor, session_id)
    if row is None or session is None:
        return None
    record = rows.record(row)
    said = said_in(record.message)
    if said is None:
        return None
    return FoundRecord(
        session=session,
        seq=record.seq,
        role=said.role,
        pieces=pieces(said.text, wanted),
        created_at=record.created_at,
    )
