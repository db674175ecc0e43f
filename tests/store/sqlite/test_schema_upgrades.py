"""Stores of every older schema: migrated completely, checked without change, and refused if damaged
(K3, K5)."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import apsw
import pytest
from tests.faults.backup_homes import write_turns
from tests.faults.file_damage import PAGE, damage_pages, root_page
from tests.support.store_chat import StoreChat

from holdfast.core.errors import StoreDamaged, StoreUnusable
from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import AssistantMessage, UserMessage
from holdfast.core.ports.store_commands import DeleteSession, SetMeta
from holdfast.core.ports.store_queries import (
    CheckIntegrity,
    CountInbox,
    CountOutbox,
    GetMeta,
    GetSearchStatus,
    GetTranscript,
)
from holdfast.store.sqlite.closed_store import ClosedSqliteStore
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore

NEWEST = len(load_migrations())
TRIGGERED = {  # written by triggers with other rows
    *("row_counts", "counted", "message_changes"),
    *("usage_mark", "usage_counted", "usage_sums"),
}
Table = list[tuple[object, ...]]


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store in the current schema; read-only."""
    path = tmp_path_factory.mktemp("current") / "state.db"
    asyncio.run(write_turns(path, turns=12, sessions=3, words=100))
    db = apsw.Connection(str(path))
    db.execute("UPDATE inbox SET state = 'answered', ended_at = 1.0 WHERE id % 2")
    db.close()
    return path


def create_older(path: Path, current: Path, version: int, *, log: bool = False) -> None:
    """The same store in an older schema; `log`: with a WAL, as after a crash."""
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(log))
    db.pragma("application_id", APPLICATION_ID)
    db.pragma("journal_mode", "wal")
    for migration in load_migrations()[:version]:
        apply_migration(db, migration)
    db.execute("ATTACH ? AS current", (str(current),))
    with db:
        for table in tables(db):
            if table in TRIGGERED:
                continue
            columns = ", ".join(columns_of(db, table))
            db.execute(
                f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM current.{table}"
            )
    db.close()
    assert path.with_name("state.db-wal").exists() == log


def tables(db: apsw.Connection) -> list[str]:
    found = db.execute(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    )
    return [str(name) for (name,) in found]


def columns_of(db: apsw.Connection, table: str) -> list[str]:
    return [str(name) for (name,) in db.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def contents(path: Path) -> dict[str, Table]:
    """Without the columns that rows from before have nothing in."""
    db = apsw.Connection(str(path))
    found = {}
    for name in tables(db):
        columns = [each for each in columns_of(db, name) if each not in ("inbox_ids", "listed")]
        query = f"SELECT {', '.join(columns)} FROM {name} ORDER BY 1, 2"
        found[name] = db.execute(query).fetchall()
    db.close()
    return found


def schema(path: Path) -> Table:
    db = apsw.Connection(str(path))
    found = db.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()
    found.append((db.pragma("user_version"),))
    db.close()
    return found


def states(path: Path, table: str) -> dict[str, int]:
    db = apsw.Connection(str(path))
    found = db.execute(f"SELECT state, count(*) FROM {table} GROUP BY state").fetchall()
    db.close()
    return {str(state): int(str(count)) for state, count in found}


def nonzero(counts: Mapping[str, int]) -> dict[str, int]:
    return {state: count for state, count in counts.items() if count}


def files(folder: Path) -> dict[str, bytes]:
    """All files but the WAL index, which is shared memory."""
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if not file.name.endswith("-shm") and file.stat().st_size
    }


@pytest.mark.parametrize("version", range(1, NEWEST))
async def test_a_store_of_every_older_schema_is_migrated(
    current: Path, tmp_path: Path, version: int
) -> None:
    """K5: all migrations are applied, every row is unchanged; also with a WAL that a crash left."""
    path = tmp_path / "state.db"
    create_older(path, current, version, log=version % 2 == 0)
    async with SqliteStore(path) as store:
        assert await store.read(CheckIntegrity()) == []
        messages = [
            record.message
            for record in await store.read(GetTranscript(session_id=SessionId("s_c1")))
        ]
        assert [type(message) for message in messages] == [UserMessage, AssistantMessage] * 4
        assert nonzero(await store.read(CountInbox())) == states(current, "inbox")
        assert nonzero(await store.read(CountOutbox())) == states(current, "outbox")
        await store.write(SetMeta(key="after", value="the upgrade"))
        assert await store.read(GetMeta(key="after")) == "the upgrade"
    assert schema(path) == schema(current)
    before, after = contents(current), contents(path)
    assert after.pop("meta") == [*before.pop("meta"), ("after", "the upgrade")]
    for table in TRIGGERED:
        del before[table], after[table]  # each has its own
    assert after == before


async def test_a_session_from_before_its_messages_were_listed_is_deleted_completely(
    current: Path, tmp_path: Path
) -> None:
    """K5: and the messages that it receives after the upgrade go with it."""
    path = tmp_path / "state.db"
    create_older(path, current, 20)
    session_id = SessionId("s_c1")
    async with SqliteStore(path) as store:
        chat = StoreChat(store)
        await chat.begin_turn(await chat.say(), session=session_id)
        before = contents(path)["inbox"]
        await store.write(DeleteSession(session_id=session_id))
    left = contents(path)
    assert left.pop("message_changes")  # has its id, for the search index
    assert len(before) == 13 and len(left["inbox"]) == 8
    assert not any(session_id in row for table in left.values() for row in table if table)


@pytest.mark.parametrize("log", [False, True])
async def test_a_damaged_file_of_an_older_schema_is_not_migrated(
    current: Path, tmp_path: Path, log: bool
) -> None:
    """K3: every write to a damaged file makes it worse, so it is checked first."""
    path = tmp_path / "state.db"
    create_older(path, current, NEWEST - 2)
    damage_pages(path, root_page(path, "inbox") - 1, chance=random.Random(0))
    if log:
        db = apsw.Connection(str(path))
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        db.execute("INSERT INTO meta VALUES ('late', 'in the log')")
        db.close()
    damaged = files(tmp_path)
    with pytest.raises(StoreDamaged, match="holdfast doctor"):
        async with SqliteStore(path):
            pass
    assert files(tmp_path) == damaged
    assert ClosedSqliteStore(path).check().problems
    assert files(tmp_path) == damaged


def test_checking_a_closed_store_changes_nothing(current: Path, tmp_path: Path) -> None:
    """K3, K5: an older file is not migrated, and its WAL is not checkpointed."""
    path = tmp_path / "state.db"
    create_older(path, current, 5, log=True)
    before = files(tmp_path)
    found = ClosedSqliteStore(path).check()
    assert (found.problems, found.needs_migration) == ([], True)
    assert files(tmp_path) == before
    folder = tmp_path / "closed"
    folder.mkdir()
    (folder / "state.db").write_bytes(current.read_bytes())
    assert not ClosedSqliteStore(folder / "state.db").check().needs_migration
    assert [file.name for file in folder.iterdir()] == ["state.db"]


def test_checking_a_store_whose_wal_is_newer_fails(current: Path, tmp_path: Path) -> None:
    """K5: only the WAL has the newer version."""
    path = tmp_path / "state.db"
    path.write_bytes(current.read_bytes())
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.pragma("user_version", NEWEST + 1)
    db.close()
    with pytest.raises(StoreUnusable, match="newer Holdfast"):
        ClosedSqliteStore(path).check()


async def test_store_damage_found_by_a_search_stops_writing(current: Path, tmp_path: Path) -> None:
    """K3: it is not taken for damage of the index, which would be rebuilt in vain."""
    path = tmp_path / "state.db"
    path.write_bytes(current.read_bytes())
    messages = root_page(path, "messages")
    body = bytearray(path.read_bytes())
    body[(messages - 1) * PAGE] = 0xFF  # an invalid page type; every index is intact
    path.write_bytes(body)
    async with SqliteStore(path) as store:
        await store.write(SetMeta(key="before", value="it was met"))
        with pytest.raises(StoreDamaged, match=r"state\.db is damaged"):
            await store.read(GetSearchStatus())
        with pytest.raises(StoreDamaged):
            await store.write(SetMeta(key="after", value="it was met"))
