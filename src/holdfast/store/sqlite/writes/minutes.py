"""Minutes: what was counted in each, kept for the charts of a day."""

import apsw
import msgspec

from holdfast.core.ops.minute import Minute

_decode = msgspec.json.Decoder(Minute).decode


def keep(cursor: apsw.Cursor, *, minute: Minute, since: int) -> None:
    """Added to what an earlier life kept of the same minute; what is older than `since` goes."""
    known = read(cursor, since=minute.at, until=minute.at)
    whole = known[0] + minute if known else minute
    cursor.execute(
        "INSERT INTO minutes (at, body) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET body = excluded.body",
        (minute.at, msgspec.json.encode(whole).decode()),
    )
    cursor.execute("DELETE FROM minutes WHERE at < ?", (since,))


def read(cursor: apsw.Cursor, *, since: int, until: int = 2**62) -> list[Minute]:
    found = cursor.execute(
        "SELECT body FROM minutes WHERE at BETWEEN ? AND ? ORDER BY at", (since, until)
    )
    return [_decode(str(row[0])) for row in found]
