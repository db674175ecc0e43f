"""Damage: it is noticed, writing stops, nothing is recreated, and what can be read is saved."""

import asyncio
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from tests.faults.homes import backed_up, left_in_the_log, made_home, put_back, read, talk, written

from holdfast.core.errors import HoldfastError, StoreDamaged, StoreError, StoreUnusable
from holdfast.core.ids import PrincipalId, SessionId
from holdfast.core.inbox import Inbound
from holdfast.core.source import Source, build_session_key
from holdfast.store.backup.restoring import replace_database
from holdfast.store.salvage.salvage import Salvaged, salvage
from holdfast.store.sqlite import SqliteStore

PAGE = 4096
Rows = dict[str, set[str]]


def tear(path: Path, *pages: int, chance: random.Random) -> None:
    """Overwrite whole pages with noise or with nothing."""
    body = bytearray(path.read_bytes())
    for page in pages:
        torn = chance.randbytes(PAGE) if chance.random() < 0.5 else bytes(PAGE)
        body[page * PAGE : (page + 1) * PAGE] = torn
    path.write_bytes(body)


def rows(path: Path) -> Rows:
    db = apsw.Connection(str(path))
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    found = {
        str(name): {repr(row) for row in db.execute(f'SELECT * FROM "{name}"')} for name in names
    }
    db.close()
    return found


def root_of(path: Path, table: str) -> int:
    db = apsw.Connection(str(path))
    root = int(db.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get)
    db.close()
    return root


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


async def test_damage_that_is_found_beside_serving_stops_the_writing(path: Path) -> None:
    """K3: what was asked for before is read still; the file is left as it is."""
    tear(path, root_of(path, "outbox") - 1, chance=random.Random(1))
    torn = path.read_bytes()
    async with SqliteStore(path) as store:
        await store.set_meta("before", "it was found")
        assert await store.examine() != []
        for _ in range(2):
            with pytest.raises(StoreDamaged, match="holdfast doctor"):
                await store.set_meta("after", "it was found")
        assert await store.meta("before") == "it was found"
        assert "damaged" in store.facts.error
    assert path.read_bytes() == torn  # not even the log is folded into it


async def test_a_read_that_meets_damage_stops_the_writing(path: Path) -> None:
    """K3: more of it with every write."""
    tear(path, root_of(path, "prompts") - 1, chance=random.Random(0))
    async with SqliteStore(path) as store:
        await store.set_meta("before", "x")
        tear(path, root_of(path, "homes") - 1, chance=random.Random(0))
        with pytest.raises(StoreDamaged):
            await store.homes()
        with pytest.raises(StoreDamaged):
            await store.set_meta("after", "x")


async def test_a_sound_store_that_was_not_closed_goes_on(path: Path) -> None:
    """K3: it is known to have been left, looked through, and written on."""
    async with SqliteStore(path) as store:
        assert not store.unclean
    left_in_the_log(path.parent, "key", "left")
    async with SqliteStore(path) as store:
        assert store.unclean
        assert await store.examine() == []
        await store.set_meta("key", "on")


async def test_an_examination_ends_with_whoever_asked_for_it(path: Path) -> None:
    """C7: a stop does not wait until a large file has been read."""
    async with SqliteStore(path) as store:
        task = asyncio.ensure_future(store.check())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await store.set_meta("key", "value")


def unclosed(path: Path, *, writes: int) -> bytes:
    """The log of a process that was killed after so many commits."""
    child = subprocess.run(
        [sys.executable, "-c", WRITE, str(path), str(writes)], check=False, timeout=50
    )
    assert child.returncode == -signal.SIGKILL
    return path.with_name("state.db-wal").read_bytes()


WRITE = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.store.sqlite import SqliteStore

async def main():
    async with SqliteStore(Path(sys.argv[1])) as store:
        for number in range(int(sys.argv[2])):
            await store.set_meta(f"key {number:03}", "x" * 3000)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("how", ["cut", "noise", "zeros"])
def test_a_torn_log_leaves_a_store_of_some_earlier_commit(tmp_path: Path, how: str) -> None:
    """K3: what is behind the tear is gone, and nothing of it is half there."""
    path = tmp_path / "state.db"
    log = unclosed(path, writes=40)
    body, chance = path.read_bytes(), random.Random(7)
    kept_at_all = set()
    for place in sorted(chance.sample(range(32, len(log)), 12)):
        for file in tmp_path.iterdir():
            file.unlink()
        path.write_bytes(body)
        torn = bytearray(log[:place])
        if how != "cut":
            torn += chance.randbytes(900) if how == "noise" else bytes(900)
            torn += log[place + 900 :]
        path.with_name("state.db-wal").write_bytes(torn)
        assert read(tmp_path, "none") is None  # it opens, and checks clean
        kept = sorted(key for key in rows(path)["meta"] if "key" in key)
        assert [f"key {number:03}" in key for number, key in enumerate(kept)] == [True] * len(kept)
        kept_at_all.add(len(kept))
    assert len(kept_at_all) > 2


def test_a_clock_that_jumps_back_changes_no_order(tmp_path: Path) -> None:
    """H5: the order of acceptance is a number's, not a clock's."""
    route_of = Source(platform="api", chat_id="c", user_id="me")

    async def accept() -> list[str]:
        async with SqliteStore(tmp_path / "state.db") as store:
            for number, at in enumerate((1e9, 5.0, 2e9, 0.0)):
                inbound = Inbound(
                    source=route_of, event_id=str(number), message_id="1", text=str(number)
                )
                key, principal = build_session_key(route_of), PrincipalId("me")
                await store.accept(inbound, route=key, principal=principal, at=at)
            return [row.inbound.text for row in await store.queued()]

    assert asyncio.run(accept()) == ["0", "1", "2", "3"]


def saved(path: Path) -> tuple[Salvaged, Rows]:
    new = path.with_name("new.db")
    new.unlink(missing_ok=True)
    told = salvage(path, new, tell=lambda done, of: None)
    return told, rows(new)


def test_all_of_a_sound_file_is_saved(path: Path) -> None:
    told, found = saved(path)
    assert found == rows(path)
    assert told.lost_pages == 0 and told.about_lost == {}


def test_what_is_in_the_log_is_saved_too(path: Path) -> None:
    left_in_the_log(path.parent, "late", "in the log")
    body = path.read_bytes()
    _, found = saved(path)
    assert "('late', 'in the log')" in found["meta"]
    assert path.read_bytes() == body and path.with_name("state.db-wal").stat().st_size


@pytest.mark.parametrize("seed", range(8))
def test_torn_pages_cost_what_was_on_them_and_nothing_is_made_up(
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
    assert bool(lost) == bool(told.lost_pages or told.about_lost), f"seed {seed}: {told}"


def test_a_conversation_whose_own_row_is_lost_can_be_read(path: Path) -> None:
    """K3: it is found again where it was held."""
    tear(path, root_of(path, "sessions") - 1, chance=random.Random(0))
    home = path.parent
    told, aside = replace_database(
        home, at=1.0, make=lambda new: salvage(path, new, tell=lambda done, of: None)
    )
    assert told.rows["sessions"] == 12 and (home / aside).exists()

    async def transcript() -> int:
        async with SqliteStore(path) as store:
            assert await store.check() == []
            row = await store.session(SessionId("s_c3"))
            assert row is not None and row.route.startswith("api:")
            return len(await store.transcript(SessionId("s_c3")))

    assert asyncio.run(transcript()) > 20


@pytest.mark.parametrize("seed", [0, 1])
def test_a_file_without_its_first_page_still_gives_conversations(path: Path, seed: int) -> None:
    """K3: nothing says any more where a table begins; its rows tell by their form."""
    before = rows(path)["messages"]
    tear(path, 0, chance=random.Random(seed))
    told, after = saved(path)
    assert after["messages"] <= before and len(after["messages"]) > len(before) / 2
    assert told.lost_pages


def test_a_file_that_was_no_store_gives_nothing_and_is_left(tmp_path: Path) -> None:
    """K3: an empty store in its place would be one that was recreated."""
    path = tmp_path / "state.db"
    path.write_bytes(b"my only novel " * 5000)
    with pytest.raises(StoreUnusable, match="nothing that can be read"):
        replace_database(
            tmp_path, at=1.0, make=lambda new: salvage(path, new, tell=lambda done, of: None)
        )
    assert path.read_bytes().startswith(b"my only novel") and [*tmp_path.iterdir()] == [path]


def test_numbers_that_were_given_out_are_not_given_out_again(path: Path) -> None:
    """G2, I2: an inbox id or a place in the outbox names one thing for ever."""
    db = apsw.Connection(str(path))
    highest = db.execute("SELECT seq FROM sqlite_sequence WHERE name = 'inbox'").get
    db.execute("DELETE FROM inbox WHERE id > 100")
    db.close()
    _, found = saved(path)
    assert f"('inbox', {highest})" in found["sqlite_sequence"]


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
    """K4: whole or not there."""
    home = made_home(tmp_path, turns=3)
    written(home, big="x" * 600_000)
    good = backed_up(home)
    written(home, since="the backup")
    request.getfixturevalue("tiny_files")
    with pytest.raises(StoreError):
        backed_up(home)
    with pytest.raises(HoldfastError, match="Nothing in it has changed"):
        put_back(home, good)
    assert [*(home / "backups").iterdir()] == [good]
    assert not [*home.glob(".restore-*")]
    assert read(home, "since") == "the backup"
