"""What /busy chose for a session: kept, cleared, and read for whoever asks."""

import apsw

from holdfast.core.ids import SessionId
from holdfast.core.messages.inbox import BusyMode


def busy_mode(cursor: apsw.Cursor, session_id: SessionId) -> BusyMode | None:
    found = cursor.execute("SELECT mode FROM busy WHERE session_id = ?", (session_id,)).fetchone()
    return None if found is None else BusyMode(found[0])


def set_busy_mode(cursor: apsw.Cursor, session_id: SessionId, mode: str) -> None:
    """A mode, or "" for none of its own."""
    if not mode:
        cursor.execute("DELETE FROM busy WHERE session_id = ?", (session_id,))
        return
    cursor.execute(
        "INSERT INTO busy (session_id, mode) VALUES (?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET mode = excluded.mode",
        (session_id, BusyMode(mode).value),
    )
