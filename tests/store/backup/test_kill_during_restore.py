"""`kill -9` at every step of a restore: what is there afterwards is the old or the new, whole."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.backup_homes import backed_up, left_in_the_log, made_home, put_back, read, written

from holdfast.core.errors import StoreUnusable
from holdfast.store.backup.restore_plan import PLAN_FILE

# Ends itself before the nth thing that a restore does.
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


def restored(home: Path, backup: Path, *, killed_at: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RESTORE, str(home), str(backup), str(killed_at)],
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )


def prepared(tmp_path: Path) -> tuple[Path, Path]:
    """A home that has gone on since its backup, in a log that a killed process left."""
    home = made_home(tmp_path)
    written(home, life="backed up")
    backup = backed_up(home)
    left_in_the_log(home, "life", "since")
    (home / "holdfast.toml").write_text("# since\n")
    return home, backup


def test_a_kill_at_any_step_leaves_the_old_or_the_new_state(tmp_path: Path) -> None:
    """K4: the plan decides; from then on whoever opens the store next carries it out."""
    home, backup = prepared(tmp_path)
    seen = []
    for nth in range(1, 50):
        ran = restored(home, backup, killed_at=nth)
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran.stderr
        decided = (home / PLAN_FILE).exists()
        life = read(home, "life")
        assert life == ("backed up" if decided else "since"), f"killed at step {nth}"
        assert ((home / "holdfast.toml").read_text() != "# since\n") == decided
        assert not (home / PLAN_FILE).exists() and not [*home.glob(".restore-*")]
        kept = [path for path in home.glob("state.db.before-*") if not path.name.endswith("-wal")]
        assert len(kept) == sum(seen) + decided  # what was there was set aside, once
        seen.append(decided)
        left_in_the_log(home, "life", "since")
        (home / "holdfast.toml").write_text("# since\n")
    assert ran.returncode == 0 and len(seen) == int(ran.stdout)
    assert True in seen and False in seen
    assert read(home, "life") == "backed up"


def test_an_interrupted_restore_can_be_followed_by_another(tmp_path: Path) -> None:
    """K4: also before anybody has opened the store."""
    home, backup = prepared(tmp_path)
    for nth in (2, 4, 6, 8):
        assert restored(home, backup, killed_at=nth).returncode == -signal.SIGKILL
    put_back(home, backup)
    assert read(home, "life") == "backed up"


def test_an_unreadable_restore_plan_keeps_the_store_closed(tmp_path: Path) -> None:
    """K3: rather than open one of which nobody knows whose log lies beside it."""
    home, _ = prepared(tmp_path)
    (home / PLAN_FILE).write_text("{")
    with pytest.raises(StoreUnusable, match=r"restore cannot be finished.*restore\.json"):
        read(home, "life")
    (home / PLAN_FILE).unlink()
    assert read(home, "life") == "since"
