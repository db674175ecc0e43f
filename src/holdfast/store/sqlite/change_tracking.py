"""Notifies listeners after a commit: which sessions have changed messages, and that the audit
has new rows."""

import asyncio
from collections.abc import Callable
from typing import Any

import apsw

from holdfast.core.ids import SessionId

# Triggers on the tables, not code in each write: every write is noticed, also future ones.
# Temporary triggers belong to this connection and do not change the file.
_MESSAGE_TRIGGERS = """
CREATE TEMP TRIGGER message_added AFTER INSERT ON main.messages
BEGIN SELECT holdfast_session_changed(new.session_id); END;
CREATE TEMP TRIGGER message_taken AFTER DELETE ON main.messages
BEGIN SELECT holdfast_session_changed(old.session_id); END;
"""


_AUDIT_TRIGGER = """
CREATE TEMP TRIGGER audit_grown AFTER INSERT ON main.audit
BEGIN SELECT holdfast_audit_grew(new.seq); END;
"""


class SessionChangeTracker:
    """Owns the ids of the sessions whose messages the current transaction has changed. Used by the
    writer thread only, which also calls `notify`."""

    def __init__(self, notify: Callable[[frozenset[SessionId]], None]) -> None:
        self._notify = notify
        self._sessions: set[SessionId] = set()

    def install(self, db: apsw.Connection) -> None:
        db.create_scalar_function("holdfast_session_changed", self._add_session, 1)
        db.execute(_MESSAGE_TRIGGERS)

    def after_commit(self) -> None:
        """Also sessions of writes that were rolled back: the listener finds nothing new there."""
        if self._sessions:
            self._notify(frozenset(self._sessions))
            self._sessions.clear()

    def _add_session(self, *session_id: Any) -> None:
        self._sessions.add(SessionId(*session_id))


class AuditGrowthTracker:
    """Owns the listener, which is called in its own event loop. The rest belongs to the writer
    thread."""

    def __init__(self) -> None:
        self._listener: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_grown = False

    def set_listener(self, listener: Callable[[], None]) -> None:
        """Replaces the previous listener."""
        self._loop, self._listener = asyncio.get_running_loop(), listener

    def install(self, db: apsw.Connection) -> None:
        db.create_scalar_function("holdfast_audit_grew", self._note_growth, 1)
        db.execute(_AUDIT_TRIGGER)

    def after_commit(self) -> None:
        """Also for a row that was rolled back: the listener finds nothing new then."""
        if not self._has_grown:
            return
        self._has_grown = False
        if self._loop is not None and self._listener is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._listener)

    def _note_growth(self, *seq: Any) -> None:
        self._has_grown = True
