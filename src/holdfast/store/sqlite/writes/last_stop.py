"""The last recorded end of a gateway, read from a file that nobody has open."""

from pathlib import Path

import apsw

from holdfast.core.turns.stop import StopRow
from holdfast.store.sqlite.inspection import has_wal
from holdfast.store.sqlite.writes import stopping


def read_last_stop(path: Path) -> StopRow | None:
    """None: none was recorded, or it cannot be read. Nothing is written, and nobody is kept out:
    a gateway may start at this very instant."""
    if not path.is_file():
        return None
    # A file without a log is whole by itself. Opened as one that might have a log, it would get
    # one from whoever merely looks.
    how = "mode=ro" if has_wal(path) else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    try:
        db = apsw.Connection(f"{path.absolute().as_uri()}?{how}", flags=flags)
        try:
            found = stopping.last_stops(db.cursor(), 1)
        finally:
            db.close()
    except apsw.Error:
        return None  # older than these records, damaged, or on its way to its next owner
    return found[0] if found else None
