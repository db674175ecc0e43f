"""Touched: which sessions a transaction has changed the messages of, told once it is durable."""

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
