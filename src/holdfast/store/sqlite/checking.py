"""Checking the file: every page of it is read, and nothing is written."""

import apsw

_IN_MAIN = "*** in database main ***\n"  # what SQLite begins with


def quick_check(cursor: apsw.Cursor) -> list[str]:
    """What SQLite finds wrong with the file; empty: nothing."""
    try:
        rows = cursor.execute("PRAGMA quick_check")
        # One row may be a hundred lines, each of a fault of its own.
        found = [line for row in rows for line in str(row[0]).removeprefix(_IN_MAIN).splitlines()]
    except apsw.CorruptError as error:
        return [str(error)]
    return [] if found == ["ok"] else found
