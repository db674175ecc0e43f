"""`kill -9` of a writing process: every acknowledged write is there afterwards (K2)."""

import asyncio
import random
import signal
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from tests.support.stores import IMPLEMENTATIONS

from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.ports.store_queries import CheckIntegrity

ROOT = Path(__file__).parents[2]

# Prints a key once its write is durable; many tasks at once, so that commits are shared.
WRITE = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.support.stores import IMPLEMENTATIONS
from holdfast.core.ports.store_commands import SetMeta

name, path, run, tasks = sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
point, nth = sys.argv[5], int(sys.argv[6])
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
    async with IMPLEMENTATIONS[name].open(path, crash=crash) as store:
        await asyncio.gather(*(write(store, task) for task in range(tasks)))

asyncio.run(main())
"""


class WritingProcess:
    """Starts processes that write to the store of one path."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self.path = path
        self.implementation = IMPLEMENTATIONS[name]

    async def start(self, run: str, *, tasks: int = 16, point: str = "", nth: int = 0) -> Process:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITE, self._name, str(self.path)),
            *(run, str(tasks), point, str(nth)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
        )

    async def run_until_killed(
        self, run: str, *, tasks: int = 16, point: str = "", nth: int = 0, lines: int = 0
    ) -> set[str]:
        """Run a writing process until it is killed, at a crash point or after so many acknowledged
        writes; returns their keys."""
        process = await self.start(run, tasks=tasks, point=point, nth=nth)
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

    async def stored_keys(self) -> set[str]:
        async with self.implementation.open(self.path) as store:
            assert await store.read(CheckIntegrity()) == []
        return set(self.implementation.read_meta(self.path))


@pytest.fixture(params=[*IMPLEMENTATIONS])
def writing(request: pytest.FixtureRequest, path: Path) -> WritingProcess:
    return WritingProcess(request.param, path)


async def test_acknowledged_writes_survive_kill_nine(writing: WritingProcess) -> None:
    """K2: at random instants, with several processes one after the other on the same file."""
    randomness = random.Random(7)
    acknowledged: set[str] = set()
    for run in range(6):
        acknowledged |= await writing.run_until_killed(str(run), lines=randomness.randint(1, 400))
    assert len(acknowledged) > 6
    assert acknowledged <= await writing.stored_keys()


@pytest.mark.parametrize(("point", "durable"), [("before_commit", 4), ("after_commit", 5)])
async def test_a_kill_at_a_commit_leaves_the_write_whole_or_absent(
    writing: WritingProcess, point: str, durable: int
) -> None:
    """K2: the fifth write is there after its commit and not before; it was not acknowledged."""
    acknowledged = await writing.run_until_killed("0", tasks=1, point=point, nth=5)
    assert acknowledged == {f"0-0-{number}" for number in range(4)}
    assert await writing.stored_keys() == {f"0-0-{number}" for number in range(durable)}


@pytest.mark.parametrize("name", [*IMPLEMENTATIONS])
async def test_a_kill_during_creation_leaves_a_store_that_opens(tmp_path: Path, name: str) -> None:
    """K5: killed anywhere in its creation, it is created again or completed."""
    randomness = random.Random(11)
    for run in range(6):
        writing = WritingProcess(name, tmp_path / f"{run}.db")
        process = await writing.start("0")
        async with asyncio.timeout(20):
            while not writing.path.exists():
                await asyncio.sleep(0.001)
        await asyncio.sleep(randomness.random() * 0.01)
        process.kill()
        await process.communicate()
        async with writing.implementation.open(writing.path) as store:
            await store.write(SetMeta(key="key", value="value"))
            assert await store.read(CheckIntegrity()) == []
