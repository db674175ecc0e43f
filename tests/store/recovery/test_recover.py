"""Salvage: what can be read of a damaged file is saved, whatever of it is gone."""

import asyncio
import random
from pathlib import Path

import apsw
import pytest
from tests.faults.backup_homes import left_in_the_log, talk
from tests.faults.file_damage import PAGE, Rows, root_of, rows, tear

from holdfast.core.errors import StoreUnusable
from holdfast.core.ids import SessionId
from holdfast.store.backup.restore import replace_database
from holdfast.store.recovery.recover import RecoveryResult, recover_database
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several hundred pages, closed; not to be written."""
    path = tmp_path_factory.mktemp("sound") / "state.db"
    asyncio.run(talk(path, turns=150, sessions=12, words=150))
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    """A copy to be torn."""
    copy = tmp_path / "state.db"
    copy.write_bytes(sound.read_bytes())
    return copy


def saved(path: Path) -> tuple[RecoveryResult, Rows]:
    new = path.with_name("new.db")
    new.unlink(missing_ok=True)
    told = recover_database(path, new, progress=lambda done, of: None)
    return told, rows(new)


def test_an_intact_file_is_recovered_completely(path: Path) -> None:
    told, found = saved(path)
    assert found == rows(path)
    assert told.lost_pages == 0 and told.estimated_lost_rows == {}


def test_the_wal_is_recovered_too(path: Path) -> None:
    left_in_the_log(path.parent, "late", "in the log")
    body = path.read_bytes()
    _, found = saved(path)
    assert "('late', 'in the log')" in found["meta"]
    assert path.read_bytes() == body and path.with_name("state.db-wal").stat().st_size


@pytest.mark.parametrize("seed", range(8))
def test_damaged_pages_lose_only_their_rows_and_no_row_is_invented(
    sound: Path, path: Path, seed: int
) -> None:
    """K3: `recover` reads what can be read, and counts what was lost."""
    chance, before = random.Random(seed), rows(sound)
    pages = chance.sample(range(1, path.stat().st_size // PAGE), chance.choice([1, 4, 12]))
    tear(path, *pages, chance=chance)
    told, after = saved(path)
    made_up = {table: after[table] - before[table] for table in before}
    stubs = made_up.pop("sessions")  # a conversation whose own row is lost gets another
    assert {table: found for table, found in made_up.items() if found} == {}, f"seed {seed}"
    lost = sum(len(before[table] - after[table]) for table in before)
    assert lost <= len(pages) * 200 and len(stubs) <= lost
    # A page that is gone may have been an empty one; what is gone is never left untold.
    assert not lost or told.lost_pages or told.estimated_lost_rows, f"seed {seed}: {told}"


def test_the_reported_loss_matches_the_missing_rows(sound: Path, path: Path) -> None:
    """K3: pages that were wiped take those with them that only they led to, and a file that was
    cut off has lost all behind the cut: neither is told as little."""
    wiped = range(4, path.stat().st_size // PAGE // 2)
    with path.open("r+b") as file:
        for number in wiped:
            file.seek(number * PAGE)
            file.write(bytes(PAGE))
    told, after = saved(path)
    lost = len(rows(sound)["messages"] - after["messages"])
    assert told.estimated_lost_rows["messages"] > lost / 2  # what stood last, no number tells of
    cut = path.stat().st_size // 2
    path.write_bytes(sound.read_bytes()[:cut])
    told, _ = saved(path)
    assert told.lost_pages >= (sound.stat().st_size - cut) // PAGE


def test_a_conversation_whose_session_row_is_lost_can_be_read(path: Path) -> None:
    """K3: it is found again where it was held."""
    tear(path, root_of(path, "sessions") - 1, chance=random.Random(0))
    home = path.parent
    told, aside = replace_database(
        home, at=1.0, make=lambda new: recover_database(path, new, progress=lambda done, of: None)
    )
    assert told.rows["sessions"] == 12 and (home / aside).exists()

    async def transcript() -> int:
        async with SqliteStore(path) as store:
            assert await store.check() == []
            row = await store.session(SessionId("s_c3"))
            assert row is not None and row.route.startswith("api:")
            return len(await store.transcript(SessionId("s_c3")))

    assert asyncio.run(transcript()) > 20


@pytest.mark.parametrize("seed", [0, 3])  # nothing, and noise
def test_a_file_without_its_first_page_is_recovered_completely(
    sound: Path, path: Path, seed: int
) -> None:
    """K3: nothing says any more where the list of tables begins; its leaves tell by their form."""
    tear(path, 0, chance=random.Random(seed))
    told, after = saved(path)
    assert after == rows(sound)
    assert told.lost_pages == 1 and "1 page could" in told.summary()


def test_conversations_are_recovered_from_a_file_without_its_first_pages(
    sound: Path, path: Path
) -> None:
    """K3: most roots are gone too; what stands under one page is of one tree."""
    before = rows(sound)
    tear(path, *range(16), chance=random.Random(1))
    _, after = saved(path)
    assert after["messages"] <= before["messages"] and after["inbox"] <= before["inbox"]
    assert len(after["messages"]) >= len(before["messages"]) - 5
    assert len(after["inbox"]) >= len(before["inbox"]) - 5


def test_the_wal_is_recovered_although_the_file_is_unreadable(path: Path) -> None:
    """K3: SQLite opens no such file, and folds the log into it all the same."""
    left_in_the_log(path.parent, "late", "in the log")
    with_log = path.with_name("state.db-wal")
    whole = with_log.read_bytes()
    tear(path, 0, chance=random.Random(0))
    _, found = saved(path)
    assert "('late', 'in the log')" in found["meta"]
    # A commit that was cut short is none, and neither is one whose sum is another's.
    for torn in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b"no log at all" * 10):
        with_log.write_bytes(torn)
        _, found = saved(path)
        assert "('late', 'in the log')" not in found["meta"]


def test_lost_routes_are_recovered_from_their_index(sound: Path, path: Path) -> None:
    """K3: it has all that the table has, so that each chat goes on where it was."""
    tear(path, root_of(path, "routes") - 1, chance=random.Random(0))
    told, after = saved(path)
    assert after["routes"] == rows(sound)["routes"] and told.rows["routes"] == 12
    assert "routes" not in told.estimated_lost_rows


def test_rows_older_than_a_column_are_assigned_to_their_table(tmp_path: Path) -> None:
    """K3, K5: they have fewer values than columns, also in a leaf that nothing leads to."""
    path = tmp_path / "state.db"
    db = apsw.Connection(str(path))
    db.pragma("application_id", APPLICATION_ID)
    apply_migration(db, load_migrations()[0])
    with db:
        for number in range(200):
            said = (f"s_{number:03}", f"api:c{number}", 1.0, 2.0)
            db.execute(
                "INSERT INTO sessions (id, route, created_at, active_at) VALUES (?, ?, ?, ?)", said
            )
    for migration in load_migrations()[1:]:
        apply_migration(db, migration)
    db.execute("UPDATE sessions SET last_resume_marked_at = 'no time' WHERE id = 's_007'")
    db.close()
    before = rows(path)
    tear(path, root_of(path, "sessions") - 1, chance=random.Random(0))
    _, after = saved(path)
    assert after["sessions"] <= before["sessions"]
    assert len(after["sessions"]) > 190  # but for those that stood on the page that was torn
    assert any("'no time'" in row for row in after["sessions"])


def test_a_file_of_a_newer_schema_is_not_recovered_partially(path: Path) -> None:
    """K5: what this program does not know would be dropped from it."""
    db = apsw.Connection(str(path))
    db.pragma("user_version", len(load_migrations()) + 1)
    db.close()
    with pytest.raises(StoreUnusable, match="newer Holdfast"):
        saved(path)


def test_a_file_that_is_no_store_is_left_unchanged(tmp_path: Path) -> None:
    """K3: an empty store in its place would be one that was recreated."""
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
    """G2, I2: an inbox id or a place in the outbox names one thing for ever."""
    db = apsw.Connection(str(path))
    highest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").get
    db.execute("DELETE FROM inbox WHERE id > 100")
    db.close()
    _, found = saved(path)
    assert f"('inbox', {highest})" in found["sqlite_sequence"]
