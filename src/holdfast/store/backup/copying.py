"""Copying the store's file while it is in use: one instant of it, at a pace that nobody feels."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ops.backup import CopyProgress
from holdfast.store.sqlite.at_rest import open_closed_store

CopyCallback = Callable[[CopyProgress], None]

_STEP_PAGES = 32  # pages
_STEP_SECONDS = 0.008  # seconds from one step to the next: 16 MB in a second
_SYNC_INTERVAL = 32  # steps after which what is copied is forced to the disk


def copy_closed_database(path: Path, to: Path, *, progress: CopyCallback) -> None:
    """Copy a file that nobody has open, as the holder of the home's lock knows."""
    with open_closed_store(path) as db, db:
        copy_database(db.cursor(), to=to, ended=threading.Event(), tell=progress, apart=0)


def copy_database(
    cursor: apsw.Cursor,
    *,
    to: Path,
    ended: threading.Event,
    tell: CopyCallback,
    apart: float = _STEP_SECONDS,
) -> None:
    """Copy what the cursor's open transaction sees into a new file. `ended`, set: stop, with what
    is there left to the caller to remove. `apart`: seconds from one step to the next, at least.

    The transaction makes it one instant: SQLite begins a copy anew when somebody else writes, but
    not one that reads from a snapshot. Writers go on; only the log cannot be folded meanwhile.
    """
    source = cursor.connection
    cursor.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - fixes the snapshot
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    target = _open_target(to)
    try:
        with target.backup("main", source, "main") as backup:
            _run_copy(backup, to, ended, tell, apart)
    finally:
        target.close()
    _fdatasync(to)


def _open_target(to: Path) -> apsw.Connection:
    # Nobody else knows the file, which may lie on a file system that has no locks; what is cut
    # is thrown away, so that it needs no journal either.
    db = apsw.Connection(str(to), flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix-none")
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    return db


def _run_copy(
    backup: apsw.Backup, to: Path, cancelled: threading.Event, progress: CopyCallback, pause: float
) -> None:
    steps = 0
    while not backup.done:
        begun = time.monotonic()
        backup.step(_STEP_PAGES)
        steps += 1
        if steps % _SYNC_INTERVAL == 0:
            # A little at a time: a commit of the gateway would wait for all that has gathered.
            _fdatasync(to)
        progress(CopyProgress(done=backup.page_count - backup.remaining, total=backup.page_count))
        took = time.monotonic() - begun
        # A disk that is slow is left alone for longer.
        if pause and cancelled.wait(max(pause - took, took)):
            raise StoreError("the copying was broken off")


def _fdatasync(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
