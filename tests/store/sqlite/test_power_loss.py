"""A power cut: of what was written and not yet synced, the disk keeps what it likes, in pieces."""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.support.store_file import open_read_only

from holdfast.store.sqlite.store import SqliteStore

SECTOR = 512
Write = tuple[int, bytes | None]  # where and what; None: the file is cut there


class Drive(apsw.VFS):
    """A file layer that knows what is on the disk for good, and what only the system has."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.lock = threading.Lock()
        self.kept: defaultdict[str, bytearray] = defaultdict(bytearray)
        self.waiting: defaultdict[str, list[Write]] = defaultdict(list)
        self.synced = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return DriveFile(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        super().xDelete(name, sync_folder)
        with self.lock:
            self.kept.pop(Path(name).name, None)
            self.waiting.pop(Path(name).name, None)

    def cut(self, folder: Path, chance: random.Random) -> None:
        """What is found in a folder after the power failed at this very instant."""
        folder.mkdir()
        with self.lock:
            for name, kept in self.kept.items():
                image = bytearray(kept)
                for write in self.waiting[name]:
                    if chance.random() < 0.5:
                        apply(image, torn(write, chance))
                (folder / name).write_bytes(image)


class DriveFile(apsw.VFSFile):
    def __init__(self, drive: Drive, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.drive, self.name = drive, Path(path).name

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        with self.drive.lock:
            self.drive.waiting[self.name].append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        with self.drive.lock:
            self.drive.waiting[self.name].append((size, None))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        with self.drive.lock:
            for write in self.drive.waiting.pop(self.name, []):
                apply(self.drive.kept[self.name], write)
            self.drive.synced += 1


def apply(image: bytearray, write: Write) -> None:
    at, data = write
    if data is None:
        del image[at:]
        return
    image.extend(bytes(max(0, at + len(data) - len(image))))
    image[at : at + len(data)] = data


def torn(write: Write, chance: random.Random) -> Write:
    """Whole, or some of its sectors from the beginning."""
    at, data = write
    if data is None or chance.random() < 0.5:
        return write
    return at, data[: chance.randrange(0, len(data) + 1, SECTOR)]


@pytest.fixture
def drive() -> Iterator[Drive]:
    drive = Drive("a drive")
    yield drive
    drive.unregister()


async def keys_in(path: Path) -> set[str]:
    async with SqliteStore(path) as store:
        assert await store.check() == []
    with open_read_only(path) as cursor:
        return {str(key) for (key,) in cursor.execute("SELECT key FROM meta")}


@pytest.mark.parametrize("seed", range(2))
async def test_a_power_cut_at_any_instant_loses_no_acknowledged_write(
    drive: Drive, tmp_path: Path, seed: int
) -> None:
    """K2: neither between commits, nor while the log is folded into the file and begun anew."""
    chance, told, cuts = random.Random(seed), set[str](), list[tuple[set[str], Path]]()
    (tmp_path / "home").mkdir()

    def cut() -> None:
        cuts.append((set(told), tmp_path / f"cut {len(cuts)}"))
        drive.cut(cuts[-1][1], chance)

    async def write(store: SqliteStore, task: int) -> None:
        for number in range(14):
            await store.set_meta(f"{task}-{number}", "x" * chance.choice([10, 3_000, 250_000]))
            told.add(f"{task}-{number}")
            if len(told) % 9 == 0:
                cut()

    async with SqliteStore(tmp_path / "home" / "state.db", vfs=drive.name) as store:
        await asyncio.gather(*(write(store, task) for task in range(6)))
        async with asyncio.timeout(20):
            while len(drive.kept["state.db"]) < 1_000_000:  # until the log is folded in
                await asyncio.sleep(0.01)
                if len(cuts) < 20:
                    cut()
        await store.set_meta("last", "x")  # at the beginning of the log
        told.add("last")
        cut()
    assert len(told) == 85 and len(cuts) > 4 and drive.synced > 10
    for before, place in cuts:
        assert before <= await keys_in(place / "state.db"), f"seed {seed}: {place.name}"


async def test_unsynced_writes_are_lost_by_a_power_cut(drive: Drive, tmp_path: Path) -> None:
    """K2: the drive can tell: what was written and never synced is not there after a cut."""
    path = tmp_path / "state.db"
    db = apsw.Connection(str(path), vfs=drive.name)
    db.pragma("journal_mode", "wal")
    db.execute("CREATE TABLE meta (key TEXT)")
    db.pragma("synchronous", "off")
    db.execute("INSERT INTO meta VALUES ('unsynced')")
    lost = 0
    for number in range(12):
        drive.cut(tmp_path / f"cut {number}", random.Random(number))
        with open_read_only(tmp_path / f"cut {number}" / "state.db") as cursor:
            lost += not cursor.execute("SELECT count(*) FROM meta").get
    db.close()
    assert lost
