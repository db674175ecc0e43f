"""Notifies a listener after a commit that the audit has new rows."""

import asyncio
from collections.abc import Callable
from typing import Any

import apsw

# A trigger on the table, not code in each write: every write is noticed, also future ones. A
# temporary trigger belongs to this connection and does not change the file.
_AUDIT_TRIGGER = """
CREATE TEMP TRIGGER audit_grown AFTER INSERT ON main.audit
BEGIN SELECT holdfast_audit_grew(new.seq); END;
"""


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
