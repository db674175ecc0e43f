"""The second hearing of the test run: what is heard again, what is not, and what it says then."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.support.rerun_failed import MOST, MOST_FILES

ROOT = Path(__file__).parents[2]
FIRST = """
from pathlib import Path
import pytest
from tests.support.rerun_failed import BrokenLaw

def first_time(name=__name__):
    seen = Path(__file__).with_name(f"{name} was here")
    there = seen.exists()
    seen.touch()
    return not there

def test_is_green():
    pass
"""
ONCE = """
def test_is_red_once():
    assert not first_time()
"""
ALWAYS = """
def test_is_red():
    assert False
"""
LAW = """
def test_breaks_a_law_once():
    if first_time():
        try:
            raise BrokenLaw("answered twice")
        except AssertionError as broken:
            raise AssertionError("seed 7") from broken
"""
SKIPPED = """
def test_is_red_and_then_skipped():
    if not first_time():
        pytest.skip("its server is gone")
    assert False
"""
DIES = """
import os

def test_is_the_end_of_its_worker():
    if first_time():
        os._exit(1)
"""
MANY = f"""
@pytest.mark.parametrize("number", range({MOST + 1}))
def test_is_red_once(number):
    assert not first_time(number)
"""


def run(folder: Path, *options: str, source: str, files: int = 1) -> CompletedProcess[str]:
    (folder / "conftest.py").write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
        'pytest_plugins = ["tests.support.rerun_failed"]\n'
    )
    for number in range(files):
        (folder / f"test_{number}.py").write_text(FIRST + source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_what_is_green_alone_does_not_fail_the_run_and_is_named(
    tmp_path: Path, workers: str
) -> None:
    done = run(tmp_path, workers, "--hear-again", source=ONCE)
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout  # the run says what happened in it
    assert done.stdout.rstrip().endswith("to be mended\n  test_0.py::test_is_red_once")


def test_what_is_red_alone_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "--hear-again", source=ALWAYS)
    assert done.returncode == 1
    assert "Heard again" in done.stdout and "to be mended" not in done.stdout


@pytest.mark.parametrize(
    ("source", "files"),
    [(LAW, 1), (MANY, 1), (ONCE, MOST_FILES + 1)],
    ids=["a broken law", "many tests", "many files"],
)
def test_a_broken_law_and_many_red_tests_are_not_heard_again(
    tmp_path: Path, source: str, files: int
) -> None:
    done = run(tmp_path, "--hear-again", source=source, files=files)
    assert done.returncode == 1
    assert "Heard again" not in done.stdout


def test_what_is_skipped_the_second_time_was_not_heard(tmp_path: Path) -> None:
    assert run(tmp_path, "--hear-again", source=SKIPPED).returncode == 1


def test_a_worker_that_died_and_a_file_that_cannot_be_read_are_final(tmp_path: Path) -> None:
    """What they would have run, nobody has: one more test that was red changes nothing of it."""
    crew = ("-n2", "--max-worker-restart=0", "--dist", "loadfile", "--hear-again")
    done = run(tmp_path, *crew, source=DIES)
    assert done.returncode != 0 and "Heard again" not in done.stdout, done.stdout
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name")
    done = run(tmp_path, *crew, source=ONCE)
    assert done.returncode != 0 and "Heard again" not in done.stdout, done.stdout


def test_a_run_that_was_broken_off_is_not_made_green(tmp_path: Path) -> None:
    done = run(tmp_path, "--hear-again", "-x", source=ONCE)
    assert done.returncode == 1
    assert "Heard again" not in done.stdout


def test_nobody_is_heard_again_unasked(tmp_path: Path) -> None:
    assert run(tmp_path, source=ONCE).returncode == 1
