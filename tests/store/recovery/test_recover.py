"""Recovery: the readable rows of a damaged database are saved (K3)."""

import asyncio
import random
from pathlib import Path

import apsw
import pytest
from tests.faults.backup_homes import leave_in_wal, write_turns
from tests.faults.file_damage import PAGE, Rows, damage_pages, read_rows, root_page

from holdfast.core.errors import StoreUnusable
from holdfast.core.ids import SessionId
from holdfast.core.ports.store_queries import CheckIntegrity, GetSession, GetTranscript
from holdfast.store.backup.restore import replace_database
from holdfast.store.recovery.recover import RecoveryResult, recover_database
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of several hundred pages; read-only."""
    path = tmp_path_factory.mktemp("intact") / "state.db"
    asyncio.run(write_turns(path, turns=150, sessions=12, words=150))
    return path


@pytest.fixture
def path(intact: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    copy = tmp_path / "state.db"
    copy.write_bytes(intact.read_bytes())
    return copy


def recover(path: Path) -> tuple[RecoveryResult, Rows]:
    new = path.with_name("new.db")
    new.unlink(missing_ok=True)
    result = recover_database(path, new, progress=lambda done, of: None)
    return result, read_rows(new)


def test_an_intact_file_is_recovered_completely(path: Path) -> None:
    result, found = recover(path)
    assert found == read_rows(path)
    assert result.lost_pages == 0 and result.estimated_lost_rows == {}


def test_the_wal_is_recovered_too(path: Path) -> None:
    leave_in_wal(path.parent, "late", "in the log")
    body = path.read_bytes()
    _, found = recover(path)
    assert "('late', 'in the log')" in found["meta"]
    assert path.read_bytes() == body and path.with_name("state.db-wal").stat().st_size


@pytest.mark.parametrize("seed", range(8))
def test_damaged_pages_lose_only_their_rows_and_no_row_is_invented(
    intact: Path, path: Path, seed: int
) -> None:
    """K3: `recover` reads what can be read, and counts what was lost."""
    randomness, before = random.Random(seed), read_rows(intact)
    pages = randomness.sample(range(1, path.stat().st_size // PAGE), randomness.choice([1, 4, 12]))
    damage_pages(path, *pages, chance=randomness)
    result, after = recover(path)
    made_up = {table: after[table] - before[table] for table in before}
    stubs = made_up.pop("sessions")  # a session whose row is lost gets a new one
    stubs |= made_up.pop("inbox")  # a message whose turn is lost says so
    assert {table: found for table, found in made_up.items() if found} == {}, f"seed {seed}"
    lost = sum(len(before[table] - after[table]) for table in before)
    assert lost <= len(pages) * 200 and len(stubs) <= lost
    # A lost page may have been empty; a lost row is always reported.
    assert not lost or result.lost_pages or result.estimated_lost_rows, f"seed {seed}: {result}"


def test_the_reported_loss_matches_the_missing_rows(intact: Path, path: Path) -> None:
    """K3: zeroed pages make the pages below them unreachable, and a truncated file has lost its
    end: both are reported in full."""
    zeroed = range(4, path.stat().st_size // PAGE // 2)
    with path.open("r+b") as file:
        for number in zeroed:
            file.seek(number * PAGE)
            file.write(bytes(PAGE))
    result, after = recover(path)
    lost = len(read_rows(intact)["messages"] - after["messages"])
    assert (
        result.estimated_lost_rows["messages"] > lost / 2
    )  # the last rows are not counted by any number
    cut = path.stat().st_size // 2
    path.write_bytes(intact.read_bytes()[:cut])
    result, _ = recover(path)
    assert result.lost_pages >= (intact.stat().st_size - cut) // PAGE


def test_a_conversation_whose_session_row_is_lost_can_be_read(path: Path) -> None:
    """K3: the session is rebuilt from its messages."""
    damage_pages(path, root_page(path, "sessions") - 1, chance=random.Random(0))
    home = path.parent
    result, previous = replace_database(
        home, at=1.0, make=lambda new: recover_database(path, new, progress=lambda done, of: None)
    )
    assert result.rows["sessions"] == 12 and (home / previous).exists()

    async def transcript() -> int:
        async with SqliteStore(path) as store:
            assert await store.read(CheckIntegrity()) == []
            row = await store.read(GetSession(session_id=SessionId("s_c3")))
            assert row is not None and row.route.startswith("api:")
            return len(await store.read(GetTranscript(session_id=SessionId("s_c3"))))

    assert asyncio.run(transcript()) > 20


@pytest.mark.parametrize("seed", [0, 3])  # nothing, and noise
def test_a_file_without_its_first_page_is_recovered_completely(
    intact: Path, path: Path, seed: int
) -> None:
    """K3: the schema table is found by the form of its leaf pages."""
    damage_pages(path, 0, chance=random.Random(seed))
    result, after = recover(path)
    assert after == read_rows(intact)
    assert result.lost_pages == 1 and "1 page of the file could" in result.summary()


def without_last_column(rows: set[str]) -> set[str]:
    """A message whose turn is lost says so there."""
    return {row.rpartition(", ")[0] for row in rows}


def test_conversations_are_recovered_from_a_file_without_its_first_pages(
    intact: Path, path: Path
) -> None:
    """K3: most root pages are gone too; all pages below one page are of one tree."""
    before = read_rows(intact)
    damage_pages(path, *range(16), chance=random.Random(1))
    _, after = recover(path)
    assert after["messages"] <= before["messages"]
    assert without_last_column(after["inbox"]) <= without_last_column(before["inbox"])
    assert len(after["messages"]) >= len(before["messages"]) - 5
    assert len(after["inbox"]) >= len(before["inbox"]) - 5


def test_the_wal_is_recovered_although_the_file_is_unreadable(path: Path) -> None:
    """K3: SQLite cannot open such a file; its WAL is read directly."""
    leave_in_wal(path.parent, "late", "in the log")
    wal = path.with_name("state.db-wal")
    whole = wal.read_bytes()
    damage_pages(path, 0, chance=random.Random(0))
    _, found = recover(path)
    assert "('late', 'in the log')" in found["meta"]
    # A truncated commit does not count, nor does one with a wrong checksum.
    for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b"no log at all" * 10):
        wal.write_bytes(damaged)
        _, found = recover(path)
        assert "('late', 'in the log')" not in found["meta"]


def test_lost_routes_are_recovered_from_their_index(intact: Path, path: Path) -> None:
    """K3: the index has all columns of the table, so that each chat keeps its session."""
    damage_pages(path, root_page(path, "routes") - 1, chance=random.Random(0))
    result, after = recover(path)
    assert after["routes"] == read_rows(intact)["routes"] and result.rows["routes"] == 12
    assert "routes" not in result.estimated_lost_rows


def test_rows_older_than_a_column_are_assigned_to_their_table(tmp_path: Path) -> None:
    """K3, K5: they have fewer values than columns, also in an unreachable leaf page."""
    path = tmp_path / "state.db"
    db = apsw.Connection(str(path))
    db.pragma("application_id", APPLICATION_ID)
    apply_migration(db, load_migrations()[0])
    with db:
        for number in range(200):
            values = (f"s_{number:03}", f"api:c{number}", 1.0, 2.0)
            db.execute(
                "INSERT INTO sessions (id, route, created_at, active_at) VALUES (?, ?, ?, ?)",
                values,
            )
    for migration in load_migrations()[1:]:
        apply_migration(db, migration)
    db.execute("UPDATE sessions SET last_resume_marked_at = 'no time' WHERE id = 's_007'")
    db.close()
    before = read_rows(path)
    damage_pages(path, root_page(path, "sessions") - 1, chance=random.Random(0))
    _, after = recover(path)
    assert after["sessions"] <= before["sessions"]
    assert len(after["sessions"]) > 190  # all but those on the damaged page
    assert any("'no time'" in row for row in after["sessions"])


def test_a_file_of_a_newer_schema_is_not_recovered_partially(path: Path) -> None:
    """K5: columns that this program does not know would be lost."""
    db = apsw.Connection(str(path))
    db.pragma("user_version", len(load_migrations()) + 1)
    db.close()
    with pytest.raises(StoreUnusable, match="newer Holdfast"):
        recover(path)


def test_a_file_that_is_no_store_is_left_unchanged(tmp_path: Path) -> None:
    """K3: an empty store is not created in its place."""
    path = tmp_path / "state.db"
    path.write_bytes(b"my only novel " * 5000)
    with pytest.raises(StoreUnusable, match="has no readable rows"):
        replace_database(
            tmp_path,
            at=1.0,
            make=lambda new: recover_database(path, new, progress=lambda done, of: None),
        )
    assert path.read_bytes().startswith(b"my only novel") and [*tmp_path.iterdir()] == [path]


def test_row_ids_are_not_reused_after_a_recovery(path: Path) -> None:
    """G2, I2: the id of an inbox or outbox row is never used for another row."""
    db = apsw.Connection(str(path))
    highest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").get
    db.execute("DELETE FROM inbox WHERE id > 100")
    db.close()
    _, found = recover(path)
    assert f"('inbox', {highest})" in found["sqlite_sequence"]
