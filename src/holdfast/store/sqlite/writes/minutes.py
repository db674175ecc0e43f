"""Minutes: what was counted in each, kept for the charts of a day."""

import apsw
import msgspec

from holdfast.core.ops.minute import MinuteStats

_decode_minute = msgspec.json.Decoder(MinuteStats).decode


def add_minute_stats(cursor: apsw.Cursor, *, minute: MinuteStats, since: int) -> None:
    """Added to what an earlier life kept of the same minute; what is older than `since` goes."""
    known = read_minute_stats(cursor, since=minute.at, until=minute.at)
    whole = known[0] + minute if known else minute
    cursor.execute(
        "INSERT INTO minutes (at, body) VALUES (?, ?)"
        " ON CONFLICT DO UPDATE SET body = excluded.body",
        (minute.at, msgspec.json.encode(whole).decode()),
    )
    cursor.execute("DELETE FROM minutes WHERE at < ?", (since,))


def read_minute_stats(cursor: apsw.Cursor, *, since: int, until: int = 2**62) -> list[MinuteStats]:
    found = cursor.execute(
        "SELECT body FROM minutes WHERE at BETWEEN ? AND ? ORDER BY at", (since, until)
    )
    return [_decode_minute(str(row[0])) for row in found]
