"""Read access to a store's file while a gateway may have it open.

It uses the store's own library. The standard library contains a second SQLite, and two SQLites in
one process do not see each other's locks: the second takes the first for dead and truncates the
WAL index, which the first has mapped (SIGBUS).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw


@contextmanager
def open_read_only(path: Path) -> Iterator[apsw.Cursor]:
    """A read-only cursor that waits a moment for a writer."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        db.set_busy_timeout(5_000)
        yield db.cursor()
    finally:
        db.close()
