"""K2: each command touches one session, so that sessions could be kept on many machines."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
from tests.support.approvals import HeldShell, PrefixJudge
from tests.support.gateway_harness import Call, GatewayHarness, Until

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.sessions import teardown
from holdfast.store.sqlite.store import SqliteStore

T = TypeVar("T")


class Watched(SqliteStore):
    """Knows which sessions each write has touched the rows of, by the name of the write."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.touched: dict[str, set[frozenset[str]]] = {}
        self._names: set[str] = set()
        self._queue = self._submit
        self._submit = self._watch
        self._watching = False

    def _watch(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        def run(cursor: apsw.Cursor) -> T:
            if not self._watching:
                self._install(cursor.connection)
            self._names.clear()
            result = work(cursor)
            found = frozenset(self._names)
            self.touched.setdefault(_name(work), set()).add(found)
            return result

        return self._queue(run)

    def _install(self, db: apsw.Connection) -> None:
        self._watching = True
        db.create_scalar_function("holdfast_watched", self._heard, 1)
        for table, change, row in _changes(db):
            db.execute(
                f"CREATE TEMP TRIGGER watched_{table}_{change} AFTER {change} ON main.{table}"
                f" BEGIN SELECT holdfast_watched({row}); END"
            )

    def _heard(self, *session_id: Any) -> None:
        self._names |= {name for name in session_id if name}


def _changes(db: apsw.Connection) -> Iterator[tuple[str, str, str]]:
    found = db.execute(
        "SELECT t.name FROM main.sqlite_schema t, pragma_table_info(t.name) c"
        " WHERE t.type = 'table' AND c.name = 'session_id'"
    ).fetchall()
    for column, tables in (("session_id", [str(name) for (name,) in found]), ("id", ["sessions"])):
        for table in tables:
            for change, row in (("INSERT", "new"), ("UPDATE", "old"), ("DELETE", "old")):
                yield table, change, f"{row}.{column}"


def _name(work: Callable[..., Any]) -> str:
    while isinstance(work, partial) and "work" in work.keywords:
        work = work.keywords["work"]  # somebody acts: with the row of that in the same commit
    done = work.func if isinstance(work, partial) else work
    return f"{done.__module__.rpartition('.')[2]}.{done.__name__}"


async def test_a_command_touches_one_session(
    harness: GatewayHarness, call: Call, until: Until
) -> None:
    """K2: but for those that lead from one conversation to another."""
    opened: list[Watched] = []

    def open_store(path: Path) -> Watched:
        opened.append(Watched(path))
        return opened[-1]

    await harness.stop()
    harness.open_store, harness.extra_tools, harness.judge = (
        open_store,
        [HeldShell()],
        PrefixJudge(),
    )
    await harness.start()
    harness.model.say(
        [call(ReplayClass.SAFE)], "one", "two", [call("shell", '{"command": "rm -rf x"}')]
    )
    harness.say("hello")
    harness.say("hello", chat="other")
    await harness.sent(2)
    harness.say("clean up")
    await harness.sent(3)
    harness.model.say("done")
    harness.say("/approve")
    await harness.sent(5)
    for command in ("/fork", "/undo", "/title better", "/new", "/sessions", "/busy queue", "/stop"):
        harness.say(command)
        await harness.sent(len(harness.service.ledger().sent) + 1)
    harness.say("hello again")
    await harness.model.wait_for_request(6)
    await until(harness.store.open_turns)  # the model is asked while its beginning is on its way
    await harness.die()
    harness.model.say("again")
    await harness.start()
    await harness.sent(13)
    gateway = harness.gateway
    for session in await harness.store.sessions(limit=10):
        await teardown.delete_session(gateway.services, gateway.lanes, gateway.teardown, session.id)

    assert {
        "turns.resume_turn",
        "approvals.request_approvals",
        "session_history.delete_session",
    } <= _names(opened)
    assert _of_several(opened) <= {"commands.apply_command"}


async def test_the_watcher_sees_a_command_that_touches_two(tmp_path: Path) -> None:
    """K2: the check itself can fail."""
    async with Watched(tmp_path / "state.db") as store:
        for name in ("one", "two"):
            await store.open_session(SessionId(name), route=SessionKey(name), at=1.0)
        assert _of_several([store]) == set()
        await store._submit(_rename_all)
        assert _of_several([store]) == {"test_one_session_per_command._rename_all"}


def _rename_all(cursor: apsw.Cursor) -> None:
    cursor.execute("UPDATE sessions SET title = 'x'")


def _names(stores: list[Watched]) -> set[str]:
    return {name for store in stores for name in store.touched}


def _of_several(stores: list[Watched]) -> set[str]:
    return {
        name
        for store in stores
        for name, found in store.touched.items()
        if max(map(len, found)) > 1
    }
