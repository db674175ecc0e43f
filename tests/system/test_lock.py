"""The lock of a home, with real processes."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.system.lock import HomeInUse, HomeLock, read_holder
from holdfast.system.process import start_time

HOLD = """
import sys
from pathlib import Path
from holdfast.system.lock import HomeLock
with HomeLock(Path(sys.argv[1])) as lock:
    lock.announce("http://127.0.0.1:1")
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(home: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the home until its input ends or it is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_second_start_is_told_who_holds_the_home_and_what_to_do(tmp_path: Path) -> None:
    """E4: one gateway per home."""
    with holding(tmp_path) as process, pytest.raises(HomeInUse) as caught:
        HomeLock(tmp_path).acquire()
    assert f"process {process.pid} (http://127.0.0.1:1" in str(caught.value)
    assert "holdfast status" in str(caught.value)
    assert caught.value.holder is not None
    assert caught.value.holder.pid == process.pid


def test_a_killed_holder_does_not_block_the_home(tmp_path: Path) -> None:
    """E4: the lock dies with its process; what it wrote stays and means nothing."""
    with holding(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (tmp_path / "gateway.lock").read_bytes() != b""
        assert read_holder(tmp_path) is None
        with HomeLock(tmp_path):
            holder = read_holder(tmp_path)
    assert holder is not None
    assert holder.pid == os.getpid()


def test_a_child_process_that_outlives_the_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    """E4: no child inherits it, or a background process would block the successor."""
    lock = HomeLock(tmp_path)
    lock.acquire()
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        try:
            lock.release()
            with HomeLock(tmp_path):
                assert child.poll() is None
        finally:
            child.kill()


def test_a_lock_without_a_named_holder_is_tried_again(tmp_path: Path) -> None:
    """E4: a holder that is killed while it bears a process leaves that the lock, for a moment."""
    left = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(left, fcntl.LOCK_EX)
    gone = threading.Timer(0.2, os.close, (left,))
    gone.start()
    with HomeLock(tmp_path):
        gone.join()


def test_removing_the_lock_file_does_not_release_the_lock(tmp_path: Path) -> None:
    """E4: an operator who takes the file for a stale one starts no second gateway."""
    with holding(tmp_path):
        (tmp_path / "gateway.lock").unlink()
        with pytest.raises(HomeInUse, match="in use by another process"):
            HomeLock(tmp_path).acquire()


def test_a_home_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="cannot be locked: No such file"):
        HomeLock(tmp_path / "gone").acquire()


def test_invalid_text_in_the_lock_file_does_not_block_the_home(tmp_path: Path) -> None:
    (tmp_path / "gateway.lock").write_bytes(b"\xff{ not json")
    assert read_holder(tmp_path) is None
    with HomeLock(tmp_path):
        pass


def test_a_reused_pid_is_not_taken_for_the_holder(tmp_path: Path) -> None:
    with HomeLock(tmp_path):
        written = (tmp_path / "gateway.lock").read_bytes()
        assert read_holder(tmp_path) is not None
    mine = str(start_time(os.getpid())).encode()
    (tmp_path / "gateway.lock").write_bytes(written.replace(mine, b"1"))
    assert read_holder(tmp_path) is None


def test_release_is_idempotent_and_frees_the_home(tmp_path: Path) -> None:
    lock = HomeLock(tmp_path)
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()
    assert read_holder(tmp_path) is None
    with HomeLock(tmp_path):
        pass


def test_a_home_lock_file_is_private(tmp_path: Path) -> None:
    with HomeLock(tmp_path):
        assert (tmp_path / "gateway.lock").stat().st_mode & 0o777 == 0o600


def test_a_process_that_is_gone_has_no_start_time() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert start_time(process.pid) is None
