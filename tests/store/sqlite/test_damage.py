"""Damage: it is noticed, writing stops, and nothing is recreated (K3)."""

import asyncio
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.faults.backup_homes import (
    leave_in_wal,
    make_backup,
    make_home,
    read_meta,
    restore,
    write_meta,
    write_turns,
)
from tests.faults.file_damage import PAGE, damage_pages, read_rows, root_page

from holdfast.core.errors import HoldfastError, StoreDamaged, StoreError
from holdfast.core.ids import PrincipalId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.ports.store_commands import AcceptMessage, SetMeta
from holdfast.core.ports.store_queries import (
    CheckIntegrity,
    GetMeta,
    ListHomeChannels,
    ListQueuedMessages,
)
from holdfast.store.sqlite.store import SqliteStore


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store; read-only."""
    path = tmp_path_factory.mktemp("intact") / "state.db"
    asyncio.run(write_turns(path, turns=20, sessions=4, words=50))
    return path


@pytest.fixture
def path(intact: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    copy = tmp_path / "state.db"
    copy.write_bytes(intact.read_bytes())
    return copy


async def test_damage_found_by_a_check_stops_writing(path: Path) -> None:
    """K3: reads still work; the file is left as it is."""
    damage_pages(path, root_page(path, "outbox") - 1, chance=random.Random(1))
    damaged = path.read_bytes()
    async with SqliteStore(path) as store:
        await store.write(SetMeta(key="before", value="it was found"))
        assert await store.read(CheckIntegrity()) != []
        for _ in range(2):
            with pytest.raises(StoreDamaged, match="holdfast doctor"):
                await store.write(SetMeta(key="after", value="it was found"))
        with pytest.raises(StoreDamaged):
            await store.erase_deleted()  # which would checkpoint the WAL as well
        assert await store.read(GetMeta(key="before")) == "it was found"
        assert "damaged" in store.status.error
    assert path.read_bytes() == damaged  # the WAL is not checkpointed either


async def test_damage_found_by_a_read_stops_writing(path: Path) -> None:
    """K3: every write would add to the damage."""
    damage_pages(path, root_page(path, "prompts") - 1, chance=random.Random(0))
    async with SqliteStore(path) as store:
        await store.write(SetMeta(key="before", value="x"))
        damage_pages(path, root_page(path, "homes") - 1, chance=random.Random(0))
        with pytest.raises(StoreDamaged):
            await store.read(ListHomeChannels())
        with pytest.raises(StoreDamaged):
            await store.write(SetMeta(key="after", value="x"))


async def test_an_intact_store_that_was_not_closed_stays_writable(path: Path) -> None:
    """K3: the unclean shutdown is noticed, the file is checked, and writing continues."""
    async with SqliteStore(path) as store:
        assert not store.unclean
    leave_in_wal(path.parent, "key", "left")
    async with SqliteStore(path) as store:
        assert store.unclean
        assert await store.read(CheckIntegrity()) == []
        await store.write(SetMeta(key="key", value="on"))


async def test_a_check_ends_when_its_task_is_cancelled(path: Path) -> None:
    """C7: a stop does not wait until a large file has been read."""
    async with SqliteStore(path) as store:
        task = asyncio.ensure_future(store.read(CheckIntegrity()))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.write(SetMeta(key="key", value="value"))


def wal_of_killed_process(path: Path, *, writes: int) -> bytes:
    """The WAL of a process that was killed after so many commits."""
    process = subprocess.run(
        [sys.executable, "-c", WRITE, str(path), str(writes)], check=False, timeout=50
    )
    assert process.returncode == -signal.SIGKILL
    return path.with_name("state.db-wal").read_bytes()


WRITE = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.core.ports.store_commands import SetMeta
from holdfast.store.sqlite.store import SqliteStore

async def main():
    async with SqliteStore(Path(sys.argv[1])) as store:
        for number in range(int(sys.argv[2])):
            await store.write(SetMeta(key=f"key {number:03}", value="x" * 3000))
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["cut", "noise", "zeros"])
def test_a_damaged_wal_leaves_the_store_at_an_earlier_commit(tmp_path: Path, how: str) -> None:
    """K3: commits after the damage are gone, and none is there in part."""
    path = tmp_path / "state.db"
    log = wal_of_killed_process(path, writes=40)
    body, randomness = path.read_bytes(), random.Random(7)
    key_counts = set()
    for offset in sorted(randomness.sample(range(32, len(log)), 12)):
        for file in tmp_path.iterdir():
            file.unlink()
        path.write_bytes(body)
        damaged = bytearray(log[:offset])
        if how != "cut":
            damaged += randomness.randbytes(900) if how == "noise" else bytes(900)
            damaged += log[offset + 900 :]
        path.with_name("state.db-wal").write_bytes(damaged)
        assert read_meta(tmp_path, "none") is None  # it opens, and the check finds nothing
        keys = sorted(key for key in read_rows(path)["meta"] if "key" in key)
        assert [f"key {number:03}" in key for number, key in enumerate(keys)] == [True] * len(keys)
        key_counts.add(len(keys))
    assert len(key_counts) > 2


def test_a_clock_that_jumps_back_changes_no_order(tmp_path: Path) -> None:
    """H5: the order of acceptance is that of row ids, not of timestamps."""
    route_of = Source(platform="api", chat_id="c", user_id="me")

    async def accept() -> list[str]:
        async with SqliteStore(tmp_path / "state.db") as store:
            for number, at in enumerate((1e9, 5.0, 2e9, 0.0)):
                inbound = Inbound(
                    source=route_of, event_id=str(number), message_id="1", text=str(number)
                )
                key, principal = build_session_key(route_of), PrincipalId("me")
                await store.write(
                    AcceptMessage(inbound=inbound, route=key, principal=principal, at=at)
                )
            return [row.inbound.text for row in await store.read(ListQueuedMessages())]

    assert asyncio.run(accept()) == ["0", "1", "2", "3"]


@pytest.fixture
def tiny_files() -> Iterator[None]:
    """No file may grow beyond a few pages, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * PAGE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_disk_that_fills_up_during_a_backup_or_a_restore_leaves_nothing_half_done(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """K4: complete or absent."""
    home = make_home(tmp_path, turns=3)
    write_meta(home, big="x" * 600_000)
    good = make_backup(home)
    write_meta(home, since="the backup")
    request.getfixturevalue("tiny_files")
    with pytest.raises(StoreError):
        make_backup(home)
    with pytest.raises(HoldfastError, match="Nothing in it was changed"):
        restore(home, good)
    assert [*(home / "backups").iterdir()] == [good]
    assert not [*home.glob(".restore-*")]
    assert read_meta(home, "since") == "the backup"
