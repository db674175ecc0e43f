"""`kill -9` of a writing process: every acknowledged write is there afterwards (K2)."""

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import apsw
import pytest

from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity
from holdfast.store.sqlite.store import SqliteStore

# Prints a key once its write is durable; many tasks at once, so that commits are shared.
WRITE = """
import asyncio, os, signal, sys
from pathlib import Path
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ports.store_commands import SetMeta
from holdfast.store.sqlite.store import SqliteStore

path, run, tasks = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
point, nth = sys.argv[4], int(sys.argv[5])
passed = 0

def crash(at):
    global passed
    if at.value == point:
        passed += 1
        if passed == nth:
            os.kill(os.getpid(), signal.SIGKILL)

async def write(store, task):
    for number in range(100_000):
        key = f"{run}-{task}-{number}"
        await store.write(SetMeta(key=key, value="x" * 500))
        os.write(1, f"{key}\\n".encode())

async def main():
    async with SqliteStore(path, crash=crash) as store:
        await asyncio.gather(*(write(store, task) for task in range(tasks)))

asyncio.run(main())
"""


async def start(path: Path, run: str, *, tasks: int, point: str, nth: int) -> Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", WRITE, str(path), run, str(tasks), point, str(nth)),
        stdout=asyncio.subprocess.PIPE,
    )


async def run_until_killed(
    path: Path, run: str, *, tasks: int = 16, point: str = "", nth: int = 0, lines: int = 0
) -> set[str]:
    """Run a writing process until it is killed, at a crash point or after so many acknowledged
    writes; returns their keys."""
    process = await start(path, run, tasks=tasks, point=point, nth=nth)
    assert process.stdout is not None
    acknowledged: list[bytes] = []
    try:
        async for line in process.stdout:
            acknowledged.append(line)
            if len(acknowledged) == lines:
                process.kill()
                break
        acknowledged += (await process.stdout.read()).splitlines(keepends=True)
    except BaseException:
        process.kill()
        raise
    assert await process.wait() == -signal.SIGKILL
    return {line.decode().strip() for line in acknowledged if line.endswith(b"\n")}


async def stored_keys(path: Path) -> set[str]:
    async with SqliteStore(path) as store:
        assert await store.read(CheckIntegrity()) == []
    db = apsw.Connection(str(path), apsw.SQLITE_OPEN_READONLY)
    keys = {str(key) for (key,) in db.execute("SELECT key FROM meta")}
    db.close()
    return keys


async def test_acknowledged_writes_survive_kill_nine(tmp_path: Path) -> None:
    """K2: at random instants, with several processes one after the other on the same file."""
    randomness = random.Random(7)
    acknowledged: set[str] = set()
    for run in range(6):
        acknowledged |= await run_until_killed(
            tmp_path / "state.db", str(run), lines=randomness.randint(1, 400)
        )
    assert len(acknowledged) > 6
    assert acknowledged <= await stored_keys(tmp_path / "state.db")


@pytest.mark.parametrize(("point", "durable"), [("before_commit", 4), ("after_commit", 5)])
async def test_a_kill_at_a_commit_leaves_the_write_whole_or_absent(
    tmp_path: Path, point: str, durable: int
) -> None:
    """K2: the fifth write is there after its commit and not before; it was not acknowledged."""
    acknowledged = await run_until_killed(tmp_path / "state.db", "0", tasks=1, point=point, nth=5)
    assert acknowledged == {f"0-0-{number}" for number in range(4)}
    assert await stored_keys(tmp_path / "state.db") == {
        f"0-0-{number}" for number in range(durable)
    }


async def test_a_kill_during_creation_leaves_a_file_that_opens(tmp_path: Path) -> None:
    """K5: killed anywhere in its creation, the file is created again or completed."""
    randomness = random.Random(11)
    for run in range(6):
        path = tmp_path / f"{run}.db"
        process = await start(path, "0", tasks=16, point="", nth=0)
        async with asyncio.timeout(20):
            while not path.exists():
                await asyncio.sleep(0.001)
        await asyncio.sleep(randomness.random() * 0.01)
        process.kill()
        await process.communicate()
        async with SqliteStore(path) as store:
            await store.write(SetMeta(key="key", value="value"))
            assert await store.read(CheckIntegrity()) == []
