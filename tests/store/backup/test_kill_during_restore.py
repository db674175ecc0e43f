"""`kill -9` at every step of a restore leaves the old or the new state, complete (K4)."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.backup_homes import (
    leave_in_wal,
    make_backup,
    make_home,
    read_meta,
    restore,
    write_meta,
)

from holdfast.core.errors import StoreUnusable
from holdfast.store.backup.restore_plan import PLAN_FILE

# Kills itself before the nth step of a restore.
RESTORE = """
import os, signal, sys
from pathlib import Path
from holdfast.store.backup.restore import restore_backup

home, backup, nth = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
passed = 0

def step(what):
    global passed
    passed += 1
    if passed == nth:
        os.kill(os.getpid(), signal.SIGKILL)

restore_backup(home, backup, at=1e9, overwrite=True, progress=lambda done: None, hook=step)
print(passed)
"""


def run_restore(home: Path, backup: Path, *, killed_at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RESTORE, str(home), str(backup), str(killed_at)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def home_with_backup(tmp_path: Path) -> tuple[Path, Path]:
    """A home with later writes than its backup, in the WAL of a killed process."""
    home = make_home(tmp_path)
    write_meta(home, run="backed up")
    backup = make_backup(home)
    leave_in_wal(home, "run", "since")
    (home / "holdfast.toml").write_text("# since\n")
    return home, backup


def test_a_kill_at_any_step_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    """K4: once the plan is written, the next process that opens the store executes it."""
    home, backup = home_with_backup(tmp_path)
    seen: list[bool] = []
    for nth in range(1, 50):
        ran = run_restore(home, backup, killed_at=nth)
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        decided = (home / PLAN_FILE).exists()
        run = read_meta(home, "run")
        assert run == ("backed up" if decided else "since"), f"killed at step {nth}"
        assert ((home / "holdfast.toml").read_text() != "# since\n") == decided
        assert not (home / PLAN_FILE).exists() and not [*home.glob(".restore-*")]
        previous = [
            path for path in home.glob("state.db.before-*") if not path.name.endswith("-wal")
        ]
        assert len(previous) == sum(seen) + decided  # the previous database was kept, once
        seen.append(decided)
        leave_in_wal(home, "run", "since")
        (home / "holdfast.toml").write_text("# since\n")
    assert ran.returncode == 0 and len(seen) == int(ran.stdout)
    assert True in seen and False in seen
    assert read_meta(home, "run") == "backed up"


def test_an_interrupted_restore_can_be_followed_by_another(tmp_path: Path) -> None:
    """K4: also before the store is opened."""
    home, backup = home_with_backup(tmp_path)
    for nth in (2, 4, 6, 8):
        assert run_restore(home, backup, killed_at=nth).returncode == -signal.SIGKILL
    restore(home, backup)
    assert read_meta(home, "run") == "backed up"


def test_an_unreadable_restore_plan_keeps_the_store_closed(tmp_path: Path) -> None:
    """K3: a database beside the WAL of another one is not opened."""
    home, _ = home_with_backup(tmp_path)
    (home / PLAN_FILE).write_text("{")
    with pytest.raises(StoreUnusable, match=r"restore cannot be finished.*restore\.json"):
        read_meta(home, "run")
    (home / PLAN_FILE).unlink()
    assert read_meta(home, "run") == "since"
