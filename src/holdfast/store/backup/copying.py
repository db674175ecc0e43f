"""Copying the store's file while it is in use: one instant of it, at a pace that nobody feels."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ops.backup import Copied
from holdfast.store.sqlite.at_rest import opened_at_rest

Tell = Callable[[Copied], None]

_STEP = 32  # pages
_APART = 0.008  # seconds from one step to the next: 16 MB in a second
_SYNCED = 32  # steps after which what is copied is forced to the disk


def copy_closed(path: Path, to: Path, *, tell: Tell) -> None:
    """Copy a file that nobody has open, as the holder of the home's lock knows."""
    with opened_at_rest(path) as db, db:
        copy(db.cursor(), to=to, ended=threading.Event(), tell=tell, apart=0)


def copy(
    cursor: apsw.Cursor,
    *,
    to: Path,
    ended: threading.Event,
    tell: Tell,
    apart: float = _APART,
) -> None:
    """Copy what the cursor's open transaction sees into a new file. `ended`, set: stop, with what
    is there left to the caller to remove. `apart`: seconds from one step to the next, at least.

    The transaction makes it one instant: SQLite begins a copy anew when somebody else writes, but
    not one that reads from a snapshot. Writers go on; only the log cannot be folded meanwhile.
    """
    source = cursor.connection
    cursor.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - fixes the snapshot
    os.close(os.open(to, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    target = _target(to)
    try:
        with target.backup("main", source, "main") as backup:
            _run(backup, to, ended, tell, apart)
    finally:
        target.close()
    _sync(to)


def _target(to: Path) -> apsw.Connection:
    # Nobody else knows the file, which may lie on a file system that has no locks; what is cut
    # is thrown away, so that it needs no journal either.
    db = apsw.Connection(str(to), flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix-none")
    db.pragma("journal_mode", "off")
    db.pragma("synchronous", "off")
    return db


def _run(backup: apsw.Backup, to: Path, ended: threading.Event, tell: Tell, apart: float) -> None:
    steps = 0
    while not backup.done:
        begun = time.monotonic()
        backup.step(_STEP)
        steps += 1
        if steps % _SYNCED == 0:
            # A little at a time: a commit of the gateway would wait for all that has gathered.
            _sync(to)
        tell(Copied(done=backup.page_count - backup.remaining, of=backup.page_count))
        took = time.monotonic() - begun
        # A disk that is slow is left alone for longer.
        if apart and ended.wait(max(apart - took, took)):
            raise StoreError("the copying was broken off")


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    try:
        os.fdatasync(fd)
    finally:
        os.close(fd)
