"""Power loss: of unsynced writes the disk keeps any subset, in sectors (K2)."""

import asyncio
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.support.store_file import open_read_only

from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity
from holdfast.store.sqlite.store import SqliteStore

SECTOR = 512
Write = tuple[int, bytes | None]  # offset and data; None: the file is truncated there


class PowerLossVfs(apsw.VFS):
    """A VFS that records which writes are synced and which are not."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "")
        self.name = name
        self.lock = threading.Lock()
        self.durable: defaultdict[str, bytearray] = defaultdict(bytearray)
        self.unsynced: defaultdict[str, list[Write]] = defaultdict(list)
        self.synced = 0

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return PowerLossFile(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        super().xDelete(name, sync_folder)
        with self.lock:
            self.durable.pop(Path(name).name, None)
            self.unsynced.pop(Path(name).name, None)

    def cut_power(self, folder: Path, randomness: random.Random) -> None:
        """Write to a folder what the disk has after a power failure at this instant."""
        folder.mkdir()
        with self.lock:
            for name, durable in self.durable.items():
                image = bytearray(durable)
                for write in self.unsynced[name]:
                    if randomness.random() < 0.5:
                        apply_write(image, partial_write(write, randomness))
                (folder / name).write_bytes(image)


class PowerLossFile(apsw.VFSFile):
    def __init__(
        self, vfs: PowerLossVfs, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self.vfs, self.name = vfs, Path(path).name

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        with self.vfs.lock:
            self.vfs.unsynced[self.name].append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        with self.vfs.lock:
            self.vfs.unsynced[self.name].append((size, None))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        with self.vfs.lock:
            for write in self.vfs.unsynced.pop(self.name, []):
                apply_write(self.vfs.durable[self.name], write)
            self.vfs.synced += 1


def apply_write(image: bytearray, write: Write) -> None:
    at, data = write
    if data is None:
        del image[at:]
        return
    image.extend(bytes(max(0, at + len(data) - len(image))))
    image[at : at + len(data)] = data


def partial_write(write: Write, randomness: random.Random) -> Write:
    """The whole write, or some of its first sectors."""
    at, data = write
    if data is None or randomness.random() < 0.5:
        return write
    return at, data[: randomness.randrange(0, len(data) + 1, SECTOR)]


@pytest.fixture
def vfs() -> Iterator[PowerLossVfs]:
    vfs = PowerLossVfs("power loss")
    yield vfs
    vfs.unregister()


async def keys_in(path: Path) -> set[str]:
    async with SqliteStore(path) as store:
        assert await store.read(CheckIntegrity()) == []
    with open_read_only(path) as cursor:
        return {str(key) for (key,) in cursor.execute("SELECT key FROM meta")}


@pytest.mark.parametrize("seed", range(2))
async def test_a_power_cut_at_any_instant_loses_no_acknowledged_write(
    vfs: PowerLossVfs, tmp_path: Path, seed: int
) -> None:
    """K2: neither between commits nor during a checkpoint and a WAL reset."""
    randomness = random.Random(seed)
    acknowledged: set[str] = set()
    images: list[tuple[set[str], Path]] = []  # what was acknowledged before each power cut
    (tmp_path / "home").mkdir()

    def cut_power() -> None:
        images.append((set(acknowledged), tmp_path / f"cut {len(images)}"))
        vfs.cut_power(images[-1][1], randomness)

    async def write(store: SqliteStore, task: int) -> None:
        for number in range(14):
            await store.write(
                SetMeta(key=f"{task}-{number}", value="x" * randomness.choice([10, 3_000, 250_000]))
            )
            acknowledged.add(f"{task}-{number}")
            if len(acknowledged) % 9 == 0:
                cut_power()

    async with SqliteStore(tmp_path / "home" / "state.db", vfs=vfs.name) as store:
        await asyncio.gather(*(write(store, task) for task in range(6)))
        async with asyncio.timeout(20):
            while len(vfs.durable["state.db"]) < 1_000_000:  # until the checkpoint
                await asyncio.sleep(0.01)
                if len(images) < 20:
                    cut_power()
        await store.write(SetMeta(key="last", value="x"))  # at the beginning of the WAL
        acknowledged.add("last")
        cut_power()
    assert len(acknowledged) == 85 and len(images) > 4 and vfs.synced > 10
    for acknowledged_before, folder in images:
        assert acknowledged_before <= await keys_in(folder / "state.db"), (
            f"seed {seed}: {folder.name}"
        )


async def test_unsynced_writes_are_lost_by_a_power_cut(vfs: PowerLossVfs, tmp_path: Path) -> None:
    """K2: the VFS itself works: an unsynced write is lost."""
    path = tmp_path / "state.db"
    db = apsw.Connection(str(path), vfs=vfs.name)
    db.pragma("journal_mode", "wal")
    db.execute("CREATE TABLE meta (key TEXT)")
    db.pragma("synchronous", "off")
    db.execute("INSERT INTO meta VALUES ('unsynced')")
    lost = 0
    for number in range(12):
        vfs.cut_power(tmp_path / f"cut {number}", random.Random(number))
        with open_read_only(tmp_path / f"cut {number}" / "state.db") as cursor:
            lost += not cursor.execute("SELECT count(*) FROM meta").get
    db.close()
    assert lost
