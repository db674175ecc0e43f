"""Copying over the control socket: followed by whoever asked, broken off when he leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.people.audit import AuditEntry
from holdfast.server.local.control_client import ControlClient, GatewayRefused
from holdfast.server.local.control_handlers import BackupCopyHandlers
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths, private_dir

Progress = Callable[[CopyProgress], None]


class Held:
    """A store whose copies end when they are told to, each in its own way."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.broken_off = asyncio.Event()
        self.looked = 0
        self.acts: list[AuditEntry] = []
        self.at_once = 0
        self.most_at_once = 0
        self.error = ""

    async def look(self) -> None:
        self.looked += 1

    async def record_audit(self, act: AuditEntry) -> None:
        self.acts.append(act)

    async def copy_to(self, path: Path, *, progress: Progress) -> None:
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        progress(CopyProgress(done=3, total=7))
        self.begun.set()
        try:
            await self.go.wait()
            if self.error:
                raise StoreError(self.error)
            path.write_text("copied")
        except asyncio.CancelledError:
            self.broken_off.set()
            raise
        finally:
            self.at_once -= 1


@pytest.fixture
async def store() -> Held:
    return Held()


@pytest.fixture
async def client(store: Held, tmp_path: Path) -> AsyncIterator[ControlClient]:
    paths = Paths(tmp_path / "home")
    private_dir(paths.run)
    application = web.Application()
    application.add_routes(
        BackupCopyHandlers(store, clock=SystemClock(), backups_changed=store.look).routes()
    )
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    await web.UnixSite(runner, str(paths.control_socket)).start()
    yield ControlClient(paths, timeout=20)
    await runner.cleanup()


def asked(client: ControlClient, to: Path) -> "asyncio.Future[list[dict[str, object]]]":
    return asyncio.ensure_future(
        asyncio.to_thread(lambda: [*client.follow("/backup/copy", {"to": str(to)})])
    )


async def test_it_is_told_how_far_it_has_come_and_that_it_is_there(
    client: ControlClient, store: Held, tmp_path: Path
) -> None:
    """K4: a stream that ends without its last line is no copy."""
    lines = client.follow("/backup/copy", {"to": str(tmp_path / "copy")})
    assert await asyncio.to_thread(next, lines) == {"done": 3, "of": 7}
    store.go.set()
    assert (await asyncio.to_thread(lambda: [*lines]))[-1] == {"copied": True}
    assert (tmp_path / "copy").read_text() == "copied"


async def test_what_went_wrong_is_told(client: ControlClient, store: Held, tmp_path: Path) -> None:
    store.error = "the disk failed"
    store.go.set()
    assert (await asked(client, tmp_path / "copy"))[-1] == {"error": "the disk failed"}


async def test_whoever_leaves_has_it_broken_off(
    client: ControlClient, store: Held, tmp_path: Path
) -> None:
    """K4: nobody copies for nobody."""
    lines = client.follow("/backup/copy", {"to": str(tmp_path / "copy")})
    await asyncio.to_thread(next, lines)
    lines.close()  # type: ignore[attr-defined]  # it is a generator
    async with asyncio.timeout(20):
        await store.broken_off.wait()


async def test_one_is_made_at_a_time(client: ControlClient, store: Held, tmp_path: Path) -> None:
    copies = [asked(client, tmp_path / str(number)) for number in range(3)]
    async with asyncio.timeout(20):
        await store.begun.wait()
        store.go.set()
        assert [lines[-1] for lines in await asyncio.gather(*copies)] == [{"copied": True}] * 3
    assert store.most_at_once == 1


@pytest.mark.parametrize("to", ["relative", "/nowhere/at/all", "there", ""])
async def test_only_a_new_file_is_written(
    client: ControlClient, store: Held, tmp_path: Path, to: str
) -> None:
    """K4: the owner of the home may ask, and even he not for this."""
    (tmp_path / "there").write_text("mine")
    named = str(tmp_path / to) if to == "there" else to
    with pytest.raises(GatewayRefused, match="new file"):
        await asyncio.to_thread(lambda: [*client.follow("/backup/copy", {"to": named})])
    assert (tmp_path / "there").read_text() == "mine" and not store.begun.is_set()


async def test_a_shelf_that_has_changed_is_looked_at_before_the_answer(
    client: ControlClient, store: Held
) -> None:
    """K4: whoever asks for the status next sees it."""
    await asyncio.to_thread(client.post, "/backup/refresh")
    assert store.looked == 1
