"""Stops of gateway processes and home channels: written and read."""

import apsw
import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.outbox import Address, NewDelivery
from holdfast.core.turns.stop import HomeChannel, StopOrder, StopRow
from holdfast.store.sqlite.writes import audit_log, outbox

_COLUMNS = "id, asked, version, parked, interrupted, stopped_at, ready_at, told, phases, resumed"

_order_decoder = msgspec.json.Decoder(StopOrder)
_phases_decoder = msgspec.json.Decoder(dict[str, float])
_address_decoder = msgspec.json.Decoder(Address)


def record_stop(cursor: apsw.Cursor, *, row: StopRow) -> None:
    """Insert a stop, or update it with what is known by now."""
    known = cursor.execute("SELECT 1 FROM restarts WHERE id = ?", (row.id,)).fetchone()
    cursor.execute(
        f"INSERT INTO restarts ({_COLUMNS}, asked_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET parked = excluded.parked,"
        " interrupted = excluded.interrupted, stopped_at = excluded.stopped_at,"
        " ready_at = excluded.ready_at, told = excluded.told, phases = excluded.phases,"
        " resumed = excluded.resumed",
        (
            row.id,
            msgspec.json.encode(row.order).decode(),
            row.version,
            row.parked,
            row.interrupted,
            row.stopped_at,
            row.ready_at,
            row.notified,
            msgspec.json.encode(row.phases).decode() if row.phases else None,
            row.resumed,
            row.order.at,
        ),
    )
    if known is None:
        audit_log.record_gateway_stop(cursor, row)


def record_ready(
    cursor: apsw.Cursor, *, deliveries: tuple[NewDelivery, ...], at: float, resumed: int
) -> None:
    """A successor is ready: completes every stop before it, and adds their notices once."""
    outbox.add_deliveries(cursor, deliveries, at=at)
    cursor.execute(
        "UPDATE restarts SET ready_at = ?, told = ?, resumed = ? WHERE ready_at IS NULL",
        (at, bool(deliveries), resumed),
    )


def open_stops(cursor: apsw.Cursor) -> list[StopRow]:
    """Stops without a ready successor, the last first."""
    found = cursor.execute(
        f"SELECT {_COLUMNS} FROM restarts WHERE ready_at IS NULL ORDER BY asked_at DESC, id DESC"
    )
    return [_decode_stop(row) for row in found]


def last_stops(cursor: apsw.Cursor, limit: int, before: str | None = None) -> list[StopRow]:
    found = cursor.execute(
        f"SELECT {_COLUMNS} FROM restarts WHERE ?1 IS NULL"
        " OR (asked_at, id) < (SELECT asked_at, id FROM restarts WHERE id = ?1)"
        " ORDER BY asked_at DESC, id DESC LIMIT ?2",
        (before, limit),
    )
    return [_decode_stop(row) for row in found]


def stops_between(cursor: apsw.Cursor, since: float, until: float) -> list[StopRow]:
    """Stops in that time, the first first. A stop counts at its end, not at its request: turns may
    have ended meanwhile."""
    found = cursor.execute(
        f"SELECT {_COLUMNS} FROM restarts WHERE coalesce(stopped_at, asked_at) > ?"
        " AND coalesce(stopped_at, asked_at) < ? ORDER BY asked_at, id LIMIT 200",
        (since, until),
    )
    return [_decode_stop(row) for row in found]


def count_restarts_between(cursor: apsw.Cursor, since: float, until: float) -> int:
    """How many processes became ready after a stop in that time."""
    found = cursor.execute(
        "SELECT count(*) FROM restarts WHERE coalesce(stopped_at, asked_at) > ?"
        " AND coalesce(stopped_at, asked_at) < ? AND ready_at IS NOT NULL",
        (since, until),
    ).fetchall()
    return int(str(found[0][0]))


def prune_stops(cursor: apsw.Cursor, *, keep: int) -> None:
    cursor.execute(
        "DELETE FROM restarts WHERE ready_at IS NOT NULL AND id NOT IN"
        " (SELECT id FROM restarts ORDER BY asked_at DESC LIMIT ?)",
        (keep,),
    )


def set_home_channel(cursor: apsw.Cursor, home: HomeChannel) -> None:
    address = home.address
    cursor.execute(
        "INSERT OR REPLACE INTO homes (platform, account, address, set_by, at)"
        " VALUES (?, ?, ?, ?, ?)",
        (
            address.platform,
            address.account,
            msgspec.json.encode(address).decode(),
            home.set_by,
            home.at,
        ),
    )


def clear_home_channel(cursor: apsw.Cursor, *, platform: str, account: str) -> None:
    cursor.execute("DELETE FROM homes WHERE platform = ? AND account = ?", (platform, account))


def home_channels(cursor: apsw.Cursor) -> list[HomeChannel]:
    found = cursor.execute("SELECT address, set_by, at FROM homes ORDER BY platform, account")
    return [
        HomeChannel(
            address=_address_decoder.decode(row[0]),
            set_by=PrincipalId(row[1]) if row[1] is not None else None,
            at=row[2],
        )
        for row in found
    ]


def _decode_stop(row: tuple[object, ...]) -> StopRow:
    return msgspec.convert(
        {
            "id": row[0],
            "order": _order_decoder.decode(str(row[1])),
            "version": row[2],
            "parked": row[3],
            "interrupted": row[4],
            "stopped_at": row[5],
            "ready_at": row[6],
            "notified": bool(row[7]),
            "phases": {} if row[8] is None else _phases_decoder.decode(str(row[8])),
            "resumed": row[9],
        },
        StopRow,
    )
