"""The second hearing of the test run: what is heard again, what is not, and what it says then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.hearing import MOST

ROOT = Path(__file__).parents[2]
ONCE = """
from pathlib import Path

def test_is_red_once():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        assert False
"""
ALWAYS = """
def test_is_red():
    assert False
"""
LAW = """
from pathlib import Path
from tests.hearing import BrokenLaw

def test_breaks_a_law_once():
    seen = Path(__file__).with_name("seen")
    if not seen.exists():
        seen.touch()
        try:
            raise BrokenLaw("answered twice")
        except AssertionError as broken:
            raise AssertionError("seed 7") from broken
"""
MANY = f"""
import pytest
from pathlib import Path

@pytest.mark.parametrize("number", range({MOST + 1}))
def test_is_red_once(number):
    seen = Path(__file__).with_name(f"seen-{{number}}")
    if not seen.exists():
        seen.touch()
        assert False
"""
GREEN = """
def test_is_green():
    pass
"""


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(
        f'import sys\nsys.path.insert(0, {str(ROOT)!r})\npytest_plugins = ["tests.hearing"]\n'
    )
    (folder / "test_it.py").write_text(source + GREEN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_what_is_green_alone_does_not_fail_the_run_and_is_named(
    tmp_path: Path, workers: str
) -> None:
    done = run(tmp_path, ONCE, workers, "--hear-again")
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout  # the run says what happened in it
    assert done.stdout.rstrip().endswith("to be mended\n  test_it.py::test_is_red_once")


def test_what_is_red_alone_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, ALWAYS, "--hear-again")
    assert done.returncode == 1
    assert "Heard again" in done.stdout and "to be mended" not in done.stdout


@pytest.mark.parametrize("source", [LAW, MANY], ids=["a broken law", "many"])
def test_a_broken_law_and_many_red_tests_are_not_heard_again(tmp_path: Path, source: str) -> None:
    done = run(tmp_path, source, "--hear-again")
    assert done.returncode == 1
    assert "Heard again" not in done.stdout


def test_a_run_that_was_broken_off_is_not_made_green(tmp_path: Path) -> None:
    done = run(tmp_path, ONCE, "--hear-again", "-x")
    assert done.returncode == 1
    assert "Heard again" not in done.stdout


def test_nobody_is_heard_again_unasked(tmp_path: Path) -> None:
    assert run(tmp_path, ONCE).returncode == 1
