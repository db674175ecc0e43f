"""Taking in: what the store has and the index has not, found and indexed in small pieces."""

import apsw
import msgspec

from holdfast.core.ids import SessionId
from holdfast.store.search.question import separate_words
from holdfast.store.search.said import searchable_text
from holdfast.store.sqlite import rows

_BATCH = 500  # messages in one transaction: while it lasts the store's log cannot be folded
_STAMP = "created_at || ':' || length(body)"


def outdated_sessions(cursor: apsw.Cursor) -> list[SessionId]:
    """Every session whose index is not as far as it is, or that is there no more."""
    found = cursor.execute(
        f"SELECT s.id FROM state.sessions s LEFT JOIN places p ON p.session_id = s.id"
        f" WHERE (SELECT seq || '/' || {_STAMP} FROM state.messages m"
        " WHERE m.session_id = s.id ORDER BY seq DESC LIMIT 1) IS NOT p.seq || '/' || p.stamp"
        " UNION ALL SELECT p.session_id FROM places p"
        " WHERE NOT EXISTS (SELECT 1 FROM state.sessions s WHERE s.id = p.session_id)"
    )
    return [SessionId(str(row[0])) for row in found]


def index_next_batch(cursor: apsw.Cursor, session_id: SessionId) -> bool:
    """Index the next messages of a session, or forget one that is gone; True: there are more."""
    if not cursor.execute("SELECT 1 FROM state.sessions WHERE id = ?", (session_id,)).fetchone():
        delete_session(cursor, session_id)
        return False
    place = _indexed_up_to(cursor, session_id)
    found = cursor.execute(
        f"SELECT seq, body, created_at, {_STAMP} FROM state.messages"
        " WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?",
        (session_id, place, _BATCH),
    ).fetchall()
    for seq, body, created_at, _ in found:
        _index_message(cursor, session_id, int(seq), str(body), float(created_at))  # type: ignore[arg-type]  # as the columns are
    if found:
        cursor.execute(
            "INSERT OR REPLACE INTO places VALUES (?, ?, ?)",
            (session_id, found[-1][0], found[-1][3]),
        )
    return len(found) == _BATCH


def _indexed_up_to(cursor: apsw.Cursor, session_id: SessionId) -> int:
    """How far the session is indexed. Where the last message that was indexed is not there any
    more, or is another one now, all of it is read again."""
    known = cursor.execute(
        "SELECT seq, stamp FROM places WHERE session_id = ?", (session_id,)
    ).fetchone()
    if known is None:
        return 0
    still = cursor.execute(
        f"SELECT 1 FROM state.messages WHERE session_id = ? AND seq = ? AND {_STAMP} = ?",
        (session_id, *known),
    ).fetchone()
    if still is None:
        delete_session(cursor, session_id)
        return 0
    return int(known[0])


def _index_message(
    cursor: apsw.Cursor, session_id: SessionId, seq: int, body: str, at: float
) -> None:
    try:
        said = searchable_text(rows.decode_message(body))
    except msgspec.MsgspecError:
        return  # one that cannot be read keeps no other from being found
    if said is None or not said.text.strip():
        return
    cursor.execute(
        "INSERT INTO entries (session_id, seq, created_at) VALUES (?, ?, ?)", (session_id, seq, at)
    )
    cursor.execute(
        "INSERT INTO words (rowid, said, done) VALUES (?, ?, ?)",
        (
            cursor.connection.last_insert_rowid(),
            separate_words(said.message_text),
            separate_words(said.tool_text),
        ),
    )


def delete_session(cursor: apsw.Cursor, session_id: SessionId) -> None:
    """Not a word of it stays."""
    cursor.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM entries WHERE session_id = ?)",
        (session_id,),
    )
    for table in ("entries", "places"):
        cursor.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
