"""A successor may end only the process that holds the home, which the kernel identifies."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from holdfast.service.child_process import RestartBackoff
from holdfast.system.lock import (
    HolderUnverified,
    HomeLock,
    LockHolder,
    read_holder,
    terminate,
    verify_holder,
)
from holdfast.system.process import start_time

HOLD = """
import signal, sys
from pathlib import Path
from holdfast.system.lock import HomeLock
if sys.argv[2] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with HomeLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holding(home: Path, manner: str = "polite") -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home), manner],
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


def holder_of(home: Path) -> LockHolder:
    holder = read_holder(home)
    assert holder is not None
    return holder


@pytest.mark.parametrize(
    ("manner", "code"), [("polite", -signal.SIGTERM), ("stubborn", -signal.SIGKILL)]
)
def test_the_holder_is_identified_and_ended_by_the_mildest_signal_that_works(
    tmp_path: Path, manner: str, code: int
) -> None:
    """E4: SIGTERM, and SIGKILL for one that does not go."""
    reports: list[str] = []
    with holding(tmp_path, manner) as process:
        fd = verify_holder(tmp_path, holder_of(tmp_path))
        assert fd is not None
        terminate(fd, timeout=0.2 if manner == "stubborn" else 30, report=reports.append)
        assert process.wait() == code
        os.close(fd)
    assert len(reports) == (2 if manner == "stubborn" else 1)
    with HomeLock(tmp_path):
        pass


def test_a_lock_file_alone_does_not_identify_the_holder(tmp_path: Path) -> None:
    """E4: the file may name any process."""
    with holding(tmp_path), subprocess.Popen(["sleep", "60"]) as bystander:
        try:
            named = msgspec.structs.replace(
                holder_of(tmp_path), pid=bystander.pid, start_time=start_time(bystander.pid)
            )
            with pytest.raises(HolderUnverified, match="No signal was sent"):
                verify_holder(tmp_path, named)
            assert bystander.poll() is None
        finally:
            bystander.kill()


def test_the_holder_of_another_home_is_not_identified(tmp_path: Path) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    mine.mkdir()
    theirs.mkdir()
    with holding(theirs), pytest.raises(HolderUnverified):
        verify_holder(mine, holder_of(theirs))


def test_an_ended_process_and_a_reused_pid_are_not_the_holder(tmp_path: Path) -> None:
    with holding(tmp_path):
        holder = holder_of(tmp_path)
        assert verify_holder(tmp_path, msgspec.structs.replace(holder, start_time=1)) is None
    assert verify_holder(tmp_path, holder) is None


def test_a_waiting_process_gets_the_lock_when_the_holder_dies(tmp_path: Path) -> None:
    """E4: the kernel wakes the waiting process; nothing polls."""
    lock = HomeLock(tmp_path)
    with holding(tmp_path) as process:
        waiting = threading.Thread(target=lock.wait)
        waiting.start()
        process.kill()
        waiting.join(30)
    assert not waiting.is_alive()
    assert holder_of(tmp_path).pid == os.getpid()
    lock.release()


def test_the_restart_backoff_grows_and_resets_after_a_healthy_run() -> None:
    """Starts that fail again and again back off."""
    backoff = RestartBackoff()
    assert [backoff.next_wait(1.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [backoff.next_wait(3600.0), backoff.next_wait(1.0)] == [1, 2]
