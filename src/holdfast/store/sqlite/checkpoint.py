"""WAL checkpoints: when the writer is idle or the WAL is long, and a truncating one after data
was deleted."""

import logging
from pathlib import Path

import apsw

from holdfast.store.sqlite.connection import BUSY_MS

log = logging.getLogger(__name__)

_IDLE_SECONDS = 0.02  # without a request
_IDLE_PAGES = 1000  # of WAL that are worth a checkpoint when idle
_OVERDUE_PAGES = 16_000  # of WAL that are checkpointed even under load
_TRUNCATE_BUSY_MS = 250


class WalCheckpointer:
    """Owns the length of the WAL. Used by the writer thread only."""

    def __init__(self, db: apsw.Connection, *, path: Path) -> None:
        self._db = db
        self._path = path
        self._wal_pages = 0
        self._checkpointed_pages = 0  # of the current WAL
        db.set_wal_hook(self._on_wal_growth)

    def _on_wal_growth(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._wal_pages:
            self._checkpointed_pages = 0  # the WAL started over
        self._wal_pages = pages
        return apsw.SQLITE_OK

    @property
    def idle_delay(self) -> float | None:
        """How long the writer waits for requests before a checkpoint; None: none is worthwhile."""
        return _IDLE_SECONDS if self._wal_pages - self._checkpointed_pages >= _IDLE_PAGES else None

    @property
    def overdue(self) -> bool:
        return self._wal_pages - self._checkpointed_pages >= _OVERDUE_PAGES

    def checkpoint(self) -> bool:
        """True if it succeeded. A failure only costs disk space, since the WAL still has the data.
        The next attempt comes when the WAL has grown by as much again."""
        self._checkpointed_pages = self._wal_pages
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            log.warning(
                "WAL checkpoint of %s failed (%s). The WAL file keeps growing until a "
                "checkpoint succeeds.",
                self._path,
                error,
                extra={"action": "checkpoint_failed"},
            )
            return False
        return True


def truncate_wal(cursor: apsw.Cursor) -> None:
    """Checkpoint the whole WAL and truncate it. Waits a moment for readers of an older state; if
    they stay, a later checkpoint without readers lets the WAL start over."""
    db = cursor.connection
    db.set_busy_timeout(_TRUNCATE_BUSY_MS)
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        log.info(
            "The WAL is in use by a reader; truncating it later.",
            extra={"action": "wal_truncate_deferred"},
        )
    finally:
        db.set_busy_timeout(BUSY_MS)
