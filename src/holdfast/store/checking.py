"""Checking the file: every page of it is read, and nothing is written."""

import apsw

_IN_MAIN = "*** in database main ***\n"  # what SQLite begins with


def quick_check(cursor: apsw.Cursor) -> list[str]:
    """What SQLite finds wrong with the file; empty: nothing."""
    try:
        rows = cursor.execute("PRAGMA quick_check")
        found = [str(row[0]).removeprefix(_IN_MAIN) for row in rows]
    except apsw.CorruptError as error:
        return [str(error)]
    return [] if found == ["ok"] else found
