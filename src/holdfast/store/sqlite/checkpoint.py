"""WAL checkpoints: when the writer is idle or the WAL is long, and a truncating one after data
was deleted."""

import logging
from pathlib import Path

import apsw

from holdfast.store.sqlite.connection import BUSY_MS

log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.02  # seconds without a command that count as idle
_IDLE_PAGES = 1000  # pages of log worth folding in when idle
_TRUNCATE_BUSY_MS = 250
_OVERDUE_PAGES = 16_000  # pages of log that are folded in even under load


class WalCheckpointer:
    """Owns the knowledge of how long the log is; used by the writer's thread alone."""

    def __init__(self, db: apsw.Connection, *, path: Path) -> None:
        self._db = db
        self._path = path
        self._wal_pages = 0
        self._checkpointed_pages = 0  # pages of the present log that were dealt with
        db.set_wal_hook(self._on_wal_growth)

    def _on_wal_growth(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._wal_pages:
            self._checkpointed_pages = 0  # the log began anew
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @property
    def idle_delay(self) -> float | None:
        """How long the writer may wait before it folds; None: there is nothing worth it."""
        return _IDLE_SECONDS if self._wal_pages - self._checkpointed_pages >= _IDLE_PAGES else None

    @property
    def overdue(self) -> bool:
        return self._wal_pages - self._checkpointed_pages >= _OVERDUE_PAGES

    def checkpoint(self) -> bool:
        """Whether it worked. A failure costs nothing but room: the log still holds it all. It
        is tried again when the log has grown by as much once more."""
        self._checkpointed_pages = self._wal_pages
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            log.warning(
                "The log of %s could not be folded into it (%s); it grows until that works.",
                self._path,
                error,
                extra={"action": "checkpoint_failed"},
            )
            return False
        return True


def truncate_wal(cursor: apsw.Cursor) -> None:
    """Fold all of the log and empty it. It waits a moment for who reads an older state, and
    then leaves it: the log is begun anew when the next fold finds nobody there."""
    db = cursor.connection
    db.set_busy_timeout(_TRUNCATE_BUSY_MS)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        log.info(
            "The log of the store is in use and is emptied later.",
            extra={"action": "wal_truncate_deferred"},
        )
    finally:
        db.set_busy_timeout(BUSY_MS)
