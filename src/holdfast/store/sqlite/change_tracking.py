"""Notifies listeners after a commit: which sessions have changed messages, and that the audit
has new rows."""

import asyncio
from collections.abc import Callable
from typing import Any

import apsw

from holdfast.core.ids import SessionId

# On the table itself and not in the code of each write: whoever adds or takes a message, now or
# later, is heard. Temporary triggers belong to this connection and leave the file alone.
_MESSAGE_TRIGGERS = """
CREATE TEMP TRIGGER message_added AFTER INSERT ON main.messages
BEGIN SELECT holdfast_touched(new.session_id); END;
CREATE TEMP TRIGGER message_taken AFTER DELETE ON main.messages
BEGIN SELECT holdfast_touched(old.session_id); END;
"""


class SessionChangeTracker:
    """Owns the names of the sessions that the present transaction touched. Used by the writer's
    thread alone; so is `tell`."""

    def __init__(self, notify: Callable[[frozenset[SessionId]], None]) -> None:
        self._notify = notify
        self._sessions: set[SessionId] = set()

    def install(self, db: apsw.Connection) -> None:
        db.create_scalar_function("holdfast_touched", self._add_session, 1)
        db.execute(_MESSAGE_TRIGGERS)

    def after_commit(self) -> None:
        """Some may have touched and failed; who looks there finds nothing new."""
        if self._sessions:
            self._notify(frozenset(self._sessions))
            self._sessions.clear()

    def _add_session(self, *session_id: Any) -> None:
        self._sessions.add(SessionId(*session_id))


# On the table itself, so that no write has to think of it; it leaves the file alone.
_AUDIT_TRIGGER = """
CREATE TEMP TRIGGER audit_grown AFTER INSERT ON main.audit
BEGIN SELECT holdfast_grown(new.seq); END;
"""


class AuditGrowthTracker:
    """Owns who is told, in their own event loop. The rest belongs to the writer's thread."""

    def __init__(self) -> None:
        self._listener: Callable[[], None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_grown = False

    def set_listener(self, listener: Callable[[], None]) -> None:
        """From now on, and in place of whoever was told before."""
        self._loop, self._listener = asyncio.get_running_loop(), listener

    def install(self, db: apsw.Connection) -> None:
        db.create_scalar_function("holdfast_grown", self._note_growth, 1)
        db.execute(_AUDIT_TRIGGER)

    def after_commit(self) -> None:
        """One that was added and taken back is told, too; who looks there finds nothing new."""
        if not self._has_grown:
            return
        self._has_grown = False
        if self._loop is not None and self._listener is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._listener)

    def _note_growth(self, *seq: Any) -> None:
        self._has_grown = True
