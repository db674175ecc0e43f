"""What the tests of the dashboard share: its views, the controls that change something, and the
history of a gateway."""

import time
from pathlib import Path
from typing import Any

import apsw

from holdfast.core.ops.stats import MINUTE_SECONDS, DurationSum, MinuteStats
from holdfast.core.ports.store_commands import AddMinuteStats, RecordStop
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.turn import Usage
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths

VIEWS = (
    "overview",
    "sessions",
    "turns",
    "approvals",
    "processes",
    "platforms",
    "outbox/state=all",
    "jobs",
    "logs",
    "audit",
    "settings",
    "settings/prices",
    "settings/history",
    "settings/tokens",
    "restarts",
)
PRICES = '[prices."scripted"]\ninput = 2.0\noutput = 8.0\n'


def change_controls(page: Any) -> list[str]:
    """The visible controls that would change something."""
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('[data-changes]')].filter((e) => e.checkVisibility())"
        ".map((e) => e.outerHTML)"
    )
    return found


PRUNED_COUNTS = [
    ("answered", 1204),
    ("merged", 31),
    ("superseded", 12),
    ("refused", 3),
    ("failed", 2),
]


def minute_stats(now: int, number: int = 600) -> list[MinuteStats]:
    """Per-minute statistics of a gateway with varying load, up to the current minute: it may be
    over before the next gateway starts to count."""
    begin = (now // MINUTE_SECONDS + 1 - number) * MINUTE_SECONDS
    return [
        MinuteStats(
            at=begin + n * MINUTE_SECONDS,
            accepted=n % 7,
            turns=1 + n % 7,
            failed=int(n % 31 == 0),
            first_token=DurationSum(count=2, total=0.5 + n % 5 / 5, worst=0.4 + n % 5 / 4),
            duration=DurationSum(count=2, total=4 + n % 11, worst=4 + n % 13),
            usage_by_model={"scripted": _usage(n)},
            hits=n % 9,
            misses=1,
            lag=0.002 + n % 17 / 2000,
            memory=84_000_000 + n * 9000,
        )
        for n in range(number)
    ]


def _usage(n: int) -> Usage:
    read = 900 * (n % 9)
    return Usage(input_tokens=read, output_tokens=80 * (n % 7), cached_tokens=read * (n % 5) // 5)


async def write_history(home: Path) -> None:
    """Writes the statistics and the restart of an earlier process."""
    now = time.time()
    order = StopOrder(kind=StopKind.RESTART, by=StopRequester.CLI, at=now - 5000)
    stop = StopRow(
        id="r1", order=order, version="0.1", parked=2, stopped_at=now - 4999, ready_at=now - 4996
    )
    async with SqliteStore(Paths(home).db) as store:
        for minute in minute_stats(int(now)):
            store.write(AddMinuteStats(stats=minute, since=0))
        await store.write(RecordStop(row=stop))
    with apsw.Connection(str(Paths(home).db)) as db:
        db.executemany("INSERT OR REPLACE INTO pruned (state, count) VALUES (?, ?)", PRUNED_COUNTS)
    db.close()
