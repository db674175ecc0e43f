"""Finding: a question asked of the index, and its answer read from the store."""

from typing import Any
from urllib.parse import quote

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.sessions.search import MAX_QUERY_LENGTH, SearchMatch, SearchQuery
from holdfast.store.search.question import SearchTerm, match_expression, parse_terms
from holdfast.store.search.said import searchable_text
from holdfast.store.search.snippet import snippet_pieces
from holdfast.store.sqlite import rows
from holdfast.store.sqlite.reads import reads

# What people and agents said counts for more than what their tools printed. Scores are rounded,
# so that of two that fit as well the newer one comes first.
_SCORE = "round(bm25(words, 1.0, 0.3), 1)"
_SESSION_WHERE = "SELECT 1 FROM state.sessions s WHERE s.id = e.session_id AND "


def find_records(cursor: apsw.Cursor, query: SearchQuery) -> list[SearchMatch]:
    """The best first. A message that is gone from the store, or was taken back, is not found,
    whatever the index still has of it."""
    wanted = parse_terms(query.words[:MAX_QUERY_LENGTH])
    sought = match_expression(wanted)
    if not sought:
        return []
    where, bindings = _filters(query)
    found = cursor.execute(
        f"SELECT e.session_id, e.seq, {_SCORE} AS score FROM words JOIN entries e"
        f" ON e.id = words.rowid WHERE words MATCH ? {where}"
        " ORDER BY score, e.created_at DESC, e.session_id, e.seq DESC LIMIT ?",
        (sought, *bindings, query.limit),
    ).fetchall()
    records = (_found_record(cursor, SessionId(str(row[0])), row[1], wanted) for row in found)
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
        parts.append(f"EXISTS ({_SESSION_WHERE} substr(s.route, 1, length(?)) = ?)")
        bindings += [prefix, prefix]
    if query.scope is not None:
        parts.append(f"EXISTS ({_SESSION_WHERE} (s.route = ? OR s.principal = ?))")
        bindings += [query.scope.route, query.scope.principal]
    return "".join(f" AND {part}" for part in parts), bindings


def _found_record(
    cursor: apsw.Cursor, session_id: SessionId, seq: Any, wanted: list[SearchTerm]
) -> SearchMatch | None:
    row = cursor.execute(
        f"SELECT {rows.RECORD_COLUMNS} FROM state.standing WHERE session_id = ? AND seq = ?",
        (session_id, seq),
    ).fetchone()
    session = reads.session(cursor, session_id)
    if row is None or session is None:
        return None
    record = rows.decode_record(row)
    said = searchable_text(record.message)
    if said is None:
        return None
    return SearchMatch(
        session=session,
        seq=record.seq,
        role=said.role,
        pieces=snippet_pieces(said.text, wanted),
        created_at=record.created_at,
    )
