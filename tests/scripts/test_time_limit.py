"""The time limit of a CI run: a hang fails, shows its stacks and leaves no process behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "time_limit.py"


def limited(seconds: float, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(seconds), *command],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_command_in_time_keeps_its_exit_code_and_its_output() -> None:
    done = limited(30, sys.executable, "-c", "print('out'); raise SystemExit(7)")
    assert (done.returncode, done.stdout) == (7, "out\n")


def test_a_command_that_is_killed_by_a_signal_fails_the_run() -> None:
    done = limited(30, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    assert done.returncode == 128 + 9


HANGS = """
import faulthandler, subprocess, sys, time
faulthandler.enable()
child = subprocess.Popen(["sleep", "987"], start_new_session=True)
print(child.pid, flush=True)
def waits_for_ever():
    time.sleep(600)
waits_for_ever()
"""


def test_a_hang_fails_with_its_stacks_and_leaves_no_process_behind() -> None:
    began = time.monotonic()
    done = limited(1, sys.executable, "-c", HANGS)
    assert done.returncode == 124
    assert time.monotonic() - began < 30
    assert "not done after 1 s" in done.stderr
    assert "in waits_for_ever" in done.stderr
    assert "sleep 987" in done.stderr
    assert not Path(f"/proc/{int(done.stdout)}").exists()


# Runs the script with another /proc/stat, in which `stolen` seconds are added after the start.
WITHHELD = """
import runpy, sys, time
from pathlib import Path
script, stolen, *sys.argv[1:] = sys.argv[1:]
began, ticks = time.monotonic(), {ticks}
real = Path.read_text
def read_text(path, *args, **options):
    if str(path) != "/proc/stat":
        return real(path, *args, **options)
    late = time.monotonic() - began > 0.5
    return f"cpu 1 1 1 1 1 1 1 {{int(float(stolen) * ticks) if late else 0}} 0 0"
Path.read_text = read_text
runpy.run_path(script, run_name="__main__")
"""


def limited_with_stolen_time(stolen: float, *command: str) -> subprocess.CompletedProcess[str]:
    ticks = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    code = WITHHELD.format(ticks=ticks)
    return subprocess.run(
        [sys.executable, "-c", code, str(SCRIPT), str(stolen), "1", *command],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_time_that_the_host_withholds_does_not_count() -> None:
    done = limited_with_stolen_time(2, "sh", "-c", "sleep 1.5; echo done")
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_a_hang_on_a_slow_host_does_end() -> None:
    began = time.monotonic()
    done = limited_with_stolen_time(1000, "sleep", "600")
    assert done.returncode == 124
    assert 2.5 <= time.monotonic() - began < 40
    assert "not done after 1 s and 2 s that the host withheld" in done.stderr
