"""Files that the store must not write: each is refused with a reason and left as it is (K3, K5)."""

import struct
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.core.errors import StoreUnusable
from holdfast.core.ids import SessionId
from holdfast.core.ports.store_commands import EndRunner, SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity
from holdfast.store.sqlite.file_check import APPLICATION_ID
from holdfast.store.sqlite.schema import Migration, apply_migration, load_migrations
from holdfast.store.sqlite.store import SqliteStore


def contents(folder: Path) -> dict[str, bytes]:
    """Every file but the WAL index, which is shared memory."""
    files = (file for file in folder.iterdir() if file.is_file())
    return {file.name: file.read_bytes() for file in files if not file.name.endswith("-shm")}


async def assert_refused(path: Path, reason: str, *, vfs: str | None = None) -> None:
    before = contents(path.parent)
    with pytest.raises(StoreUnusable, match=reason) as refusal:
        async with SqliteStore(path, vfs=vfs):
            pass
    assert str(path) in str(refusal.value)
    assert contents(path.parent) == before


async def create_store(path: Path, **meta: str) -> Path:
    async with SqliteStore(path) as store:
        for key, value in meta.items():
            await store.write(SetMeta(key=key, value=value))
    return path


@pytest.mark.parametrize("size", [1, 50, 100, 5000])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, size: int) -> None:
    """K3: never overwritten, whatever it is."""
    path = tmp_path / "state.db"
    path.write_bytes(b"my only novel, " * (size // 15 + 1))
    await assert_refused(path, "not an SQLite database")


async def test_an_emptied_file_is_not_recreated(tmp_path: Path) -> None:
    """K3: a power cut or a user may empty the file. Without a search index the home is new, and
    the file is initialised."""
    path = tmp_path / "state.db"
    path.touch()
    (tmp_path / "search.db").touch()
    await assert_refused(path, "is empty, although")
    (tmp_path / "search.db").unlink()
    await create_store(path)


async def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """K3: recognised by the application id."""
    path = tmp_path / "state.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE precious (x)")
    other.close()
    await assert_refused(path, "another program")


async def test_a_foreign_database_with_a_wal_is_not_checkpointed(tmp_path: Path) -> None:
    """K3: opening it the usual way would checkpoint and delete the WAL on close."""
    path = tmp_path / "state.db"
    other = apsw.Connection(str(path))
    other.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    other.pragma("journal_mode", "wal")
    other.execute("CREATE TABLE precious (x)")
    other.close()
    assert (tmp_path / "state.db-wal").stat().st_size
    await assert_refused(path, "another program")


async def test_a_file_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    """K5: and nothing is written to it."""
    path = await create_store(tmp_path / "state.db")
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", len(load_migrations()) + 1)
    newer.close()
    assert not (tmp_path / "state.db-wal").exists()
    await assert_refused(path, rf"schema version {len(load_migrations()) + 1}.*newer Holdfast")


async def test_a_file_whose_wal_is_newer_than_the_program_is_refused(tmp_path: Path) -> None:
    """K5: the upgrade was committed to the WAL and its process killed."""
    path = await create_store(tmp_path / "state.db")
    newer = apsw.Connection(str(path))
    newer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    newer.pragma("user_version", 99)
    newer.close()
    assert (tmp_path / "state.db-wal").stat().st_size
    await assert_refused(path, "schema version 99")


async def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """K3: damage is noticed when the file is opened."""
    path = await create_store(tmp_path / "state.db", key="value")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    await assert_refused(path, "damaged.*bytes")


async def test_a_file_with_a_broken_schema_is_refused(tmp_path: Path) -> None:
    """K3: its header is intact and the rest of its first page is not."""
    path = await create_store(tmp_path / "state.db", key="value")
    whole = bytearray(path.read_bytes())
    whole[100:1000] = b"\xff" * 900
    path.write_bytes(whole)
    await assert_refused(path, "damaged")


async def test_damage_inside_is_found_by_a_check(tmp_path: Path) -> None:
    """K3: `quick_check` reads what opening does not."""
    # So many that the damaged half has no page of the schema, which is read at opening.
    path = await create_store(
        tmp_path / "state.db", **{f"k{number}": "x" * 3000 for number in range(250)}
    )
    whole = bytearray(path.read_bytes())
    page = struct.unpack_from(">H", whole, 16)[0]
    middle = len(whole) // page // 2 * page
    whole[middle : len(whole) - page] = b"\xff" * (len(whole) - page - middle)
    path.write_bytes(whole)
    async with SqliteStore(path) as store:
        assert await store.read(CheckIntegrity()) != []


async def test_pages_that_belong_to_nothing_are_found_by_a_check(tmp_path: Path) -> None:
    """K3: a schema with a view can make SQLite leave out that part of its check (decision 61)."""
    path = await create_store(tmp_path / "state.db")
    whole = path.read_bytes()
    page = struct.unpack_from(">H", whole, 16)[0]
    pages = len(whole) // page + 1  # of which the last one belongs to nothing
    path.write_bytes(whole[:28] + pages.to_bytes(4, "big") + whole[32:] + bytes(page))
    async with SqliteStore(path) as store:
        [problem] = await store.read(CheckIntegrity())
        assert f"Page {pages}: never used" in problem
    db = apsw.Connection(str(path))
    assert db.execute("SELECT name FROM sqlite_schema WHERE type = 'view'").fetchall() == []
    db.close()


async def test_a_wal_without_its_database_is_refused(tmp_path: Path) -> None:
    """K3: an empty store beside it would discard the messages in the WAL."""
    path = await create_store(tmp_path / "state.db")
    (tmp_path / "state.db-wal").write_bytes(b"messages" * 1000)
    path.unlink()
    await assert_refused(path, "missing")
    path.touch()
    await assert_refused(path, "empty")


async def test_a_folder_instead_of_the_database_is_refused(tmp_path: Path) -> None:
    """K3: with a message of its own, not with an error of SQLite."""
    (tmp_path / "state.db").mkdir()
    await assert_refused(tmp_path / "state.db", "not a regular file")


async def test_a_missing_home_is_reported(tmp_path: Path) -> None:
    """K3: the message names the folder and what to do."""
    with pytest.raises(StoreUnusable, match=r"folder .* does not exist"):
        async with SqliteStore(tmp_path / "nowhere" / "state.db"):
            pass


class ReadOnlyVfs(apsw.VFS):
    """A VFS on which nothing can be opened for writing, not even by root."""

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        writing = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        flags[0] = flags[0] & ~writing | apsw.SQLITE_OPEN_READONLY
        return apsw.VFSFile("", name, flags)


@pytest.fixture
def read_only() -> Iterator[str]:
    layer = ReadOnlyVfs("read only", "")
    yield "read only"
    layer.unregister()


async def test_a_read_only_file_is_refused(tmp_path: Path, read_only: str) -> None:
    """K3: when it is opened, not at the first message."""
    path = await create_store(tmp_path / "state.db", key="value")
    await assert_refused(path, "read-only.*permission", vfs=read_only)


async def test_a_file_from_before_the_newest_schema_is_migrated(tmp_path: Path) -> None:
    """K5: each migration is a transaction, and the version says which were applied."""
    path = tmp_path / "state.db"
    old = apsw.Connection(str(path))
    old.pragma("application_id", APPLICATION_ID)
    old.close()
    await create_store(path, key="value")
    now = apsw.Connection(str(path))
    assert now.pragma("user_version") == len(load_migrations())
    assert now.execute("SELECT value FROM meta").get == "value"
    now.close()


async def test_writing_stops_when_damage_is_found(tmp_path: Path) -> None:
    """K3: every write to a damaged file makes it worse."""
    path = await create_store(
        tmp_path / "state.db", **{f"k{number}": "x" * 3000 for number in range(50)}
    )
    whole = bytearray(path.read_bytes())
    page = struct.unpack_from(">H", whole, 16)[0]
    db = apsw.Connection(str(path))
    root = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").get
    db.close()
    whole[(root - 1) * page : root * page] = b"\xff" * page
    path.write_bytes(whole)
    async with SqliteStore(path) as store:
        with pytest.raises(StoreUnusable, match="damaged"):
            await store.write(SetMeta(key="key", value="value"))
        with pytest.raises(StoreUnusable, match="damaged"):
            await store.write(EndRunner(session_id=SessionId("elsewhere")))
    assert path.read_bytes() == whole


async def test_a_failed_migration_is_rolled_back(tmp_path: Path) -> None:
    """K5: the next start tries it again."""
    path = await create_store(tmp_path / "state.db", key="value")
    db = apsw.Connection(str(path))
    with pytest.raises(apsw.SQLError):
        apply_migration(
            db, Migration(99, "CREATE TABLE half (x); DROP TABLE meta; CREATE TABEL oops")
        )
    assert db.pragma("user_version") == len(load_migrations())
    assert not db.in_transaction
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'half'").get == 0
    assert db.execute("SELECT value FROM meta").get == "value"
    db.close()
