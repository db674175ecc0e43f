"""Meta: single values that belong to the gateway and to no session."""

import apsw


def set_meta(cursor: apsw.Cursor, *, key: str, value: str) -> None:
    cursor.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET value = excluded.value",
        (key, value),
    )
