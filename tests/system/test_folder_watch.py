"""A file watch: the kernel reports every change of the watched files, and of no others."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from holdfast.system.linux import FileWatch, WatchUnavailable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


async def wait_for_change(watch: FileWatch) -> None:
    async with asyncio.timeout(20):
        await watch.changed.wait()
    watch.changed.clear()


async def test_every_kind_of_file_change_is_noticed(tmp_path: Path) -> None:
    """Written in place, replaced by another as editors do it, taken away, and led to by a link."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file, link, real = tmp_path / "file", tmp_path / "link", elsewhere / "real"
    real.write_text("one")
    link.symlink_to(real)
    with FileWatch([file, link]) as watch:
        file.write_text("one")
        await wait_for_change(watch)
        beside = tmp_path / "file.new"
        beside.write_text("two")
        beside.replace(file)
        await wait_for_change(watch)
        file.chmod(0o600)
        await wait_for_change(watch)
        file.unlink()
        await wait_for_change(watch)
        real.write_text("two")
        await wait_for_change(watch)


async def test_changes_of_other_files_wake_no_watcher(tmp_path: Path) -> None:
    """A home is written to all the time: by the store, the lock and the log."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    with FileWatch([mine]) as watch, FileWatch([other]) as beside:
        other.write_text("x")
        await wait_for_change(beside)
        for _ in range(3):  # pending kernel events are read within one turn of the loop
            await asyncio.sleep(0)
        assert not watch.changed.is_set()


async def test_a_failed_watch_reports_its_reason_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with (
        pytest.raises(WatchUnavailable, match="No such file"),
        FileWatch([tmp_path / "no" / "file"]),
    ):
        pass
    assert len(os.listdir("/proc/self/fd")) <= before
