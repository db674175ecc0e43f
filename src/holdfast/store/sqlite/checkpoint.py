"""Checkpoints: folding the write-ahead log into the file, in the gaps when nobody writes."""

import logging
from pathlib import Path

import apsw

from holdfast.store.sqlite.opening import BUSY_MS

log = logging.getLogger(__name__)

_GAP = 0.02  # seconds without a command that count as idle
_LONG = 1000  # pages of log worth folding in when idle
_SCRUB_MS = 250
_TOO_LONG = 16_000  # pages of log that are folded in even under load


class Checkpoints:
    """Owns the knowledge of how long the log is; used by the writer's thread alone."""

    def __init__(self, db: apsw.Connection, *, path: Path) -> None:
        self._db = db
        self._path = path
        self._pages = 0
        self._folded = 0  # pages of the present log that were dealt with
        db.set_wal_hook(self._grown)

    def _grown(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:
            self._folded = 0  # the log began anew
        self._pages = pages
        return apsw.SQLITE_OK

    @property
    def gap(self) -> float | None:
        """How long the writer may wait before it folds; None: there is nothing worth it."""
        return _GAP if self._pages - self._folded >= _LONG else None

    @property
    def overdue(self) -> bool:
        return self._pages - self._folded >= _TOO_LONG

    def fold(self) -> bool:
        """Whether it worked. A failure costs nothing but room: the log still holds it all. It
        is tried again when the log has grown by as much once more."""
        self._folded = self._pages
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


def scrub(cursor: apsw.Cursor) -> None:
    """Fold all of the log and empty it. It waits a moment for who reads an older state, and
    then leaves it: the log is begun anew when the next fold finds nobody there."""
    db = cursor.connection
    db.set_busy_timeout(_SCRUB_MS)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        log.info("The log of the store is in use and is emptied later.", extra={"action": "scrub"})
    finally:
        db.set_busy_timeout(BUSY_MS)
