"""Backup copies over the control socket: progress, errors, and cancellation (K4)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest
from aiohttp import web

from holdfast.core.errors import StoreError
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import RecordAudit
from holdfast.server.local.control_client import ControlClient, GatewayRefused
from holdfast.server.local.control_handlers import BackupCopyHandlers
from holdfast.system.clock import SystemClock
from holdfast.system.paths import Paths, private_dir

R = TypeVar("R")

Progress = Callable[[CopyProgress], None]


class HeldCopyStore:
    """A store whose copies wait until a test releases them, and may fail."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.refreshes = 0
        self.entries: list[AuditEntry] = []
        self.running = 0
        self.most_running = 0
        self.error = ""

    async def refresh_backups(self) -> None:
        self.refreshes += 1

    async def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> R:
        assert isinstance(command, RecordAudit)
        self.entries.append(command.entry)
        return cast("R", None)

    async def copy_to(self, path: Path, *, progress: Progress) -> None:
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        progress(CopyProgress(done=3, total=7))
        self.started.set()
        try:
            await self.release.wait()
            if self.error:
                raise StoreError(self.error)
            path.write_text("copied")
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        finally:
            self.running -= 1


@pytest.fixture
async def store() -> HeldCopyStore:
    return HeldCopyStore()


@pytest.fixture
async def client(store: HeldCopyStore, tmp_path: Path) -> AsyncIterator[ControlClient]:
    paths = Paths(tmp_path / "home")
    private_dir(paths.run)
    application = web.Application()
    application.add_routes(
        BackupCopyHandlers(
            store, clock=SystemClock(), backups_changed=store.refresh_backups
        ).routes()
    )
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    await web.UnixSite(runner, str(paths.control_socket)).start()
    yield ControlClient(paths, timeout=20)
    await runner.cleanup()


def start_copy(client: ControlClient, to: Path) -> "asyncio.Future[list[dict[str, object]]]":
    return asyncio.ensure_future(
        asyncio.to_thread(lambda: [*client.follow("/backup/copy", {"to": str(to)})])
    )


async def test_a_copy_reports_its_progress_and_its_end(
    client: ControlClient, store: HeldCopyStore, tmp_path: Path
) -> None:
    """K4: a stream without its last line is not a complete copy."""
    lines = client.follow("/backup/copy", {"to": str(tmp_path / "copy")})
    assert await asyncio.to_thread(next, lines) == {"done": 3, "of": 7}
    store.release.set()
    assert (await asyncio.to_thread(lambda: [*lines]))[-1] == {"copied": True}
    assert (tmp_path / "copy").read_text() == "copied"


async def test_a_failed_copy_reports_the_error(
    client: ControlClient, store: HeldCopyStore, tmp_path: Path
) -> None:
    store.error = "the disk failed"
    store.release.set()
    assert (await start_copy(client, tmp_path / "copy"))[-1] == {"error": "the disk failed"}


async def test_a_copy_is_cancelled_when_its_client_disconnects(
    client: ControlClient, store: HeldCopyStore, tmp_path: Path
) -> None:
    """K4: no copy continues without a client."""
    lines = client.follow("/backup/copy", {"to": str(tmp_path / "copy")})
    await asyncio.to_thread(next, lines)
    lines.close()  # type: ignore[attr-defined]  # it is a generator
    async with asyncio.timeout(20):
        await store.cancelled.wait()


async def test_one_copy_runs_at_a_time(
    client: ControlClient, store: HeldCopyStore, tmp_path: Path
) -> None:
    copies = [start_copy(client, tmp_path / str(number)) for number in range(3)]
    async with asyncio.timeout(20):
        await store.started.wait()
        store.release.set()
        assert [lines[-1] for lines in await asyncio.gather(*copies)] == [{"copied": True}] * 3
    assert store.most_running == 1


@pytest.mark.parametrize("to", ["relative", "/nowhere/at/all", "there", ""])
async def test_a_copy_is_written_to_a_new_file_only(
    client: ControlClient, store: HeldCopyStore, tmp_path: Path, to: str
) -> None:
    """K4: not even the owner of the home may overwrite a file."""
    (tmp_path / "there").write_text("mine")
    target = str(tmp_path / to) if to == "there" else to
    with pytest.raises(GatewayRefused, match="new file"):
        await asyncio.to_thread(lambda: [*client.follow("/backup/copy", {"to": target})])
    assert (tmp_path / "there").read_text() == "mine" and not store.started.is_set()


async def test_a_refresh_reads_the_backups_before_the_answer(
    client: ControlClient, store: HeldCopyStore
) -> None:
    """K4: the next status includes them."""
    await asyncio.to_thread(client.post, "/backup/refresh")
    assert store.refreshes == 1
