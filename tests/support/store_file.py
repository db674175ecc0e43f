"""Looking into a store's file from outside, while a gateway may have it open.

Always with the store's own library. The standard library's has a second SQLite in it, and two of
them in one process see no locks of each other: the one that comes later takes the other for dead
and cuts off the index of the log, which the first has in its memory (SIGBUS).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Cursor]:
    """A cursor that can only read, and waits a moment for whoever writes."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5_000)
        yield db.cursor()
    finally:
        db.close()
