"""The plugin that reruns failed tests: what is rerun, what is not, and what it prints."""

import os
import subprocess
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.support.rerun_failed import MAX_FILES, MAX_TESTS

ROOT = Path(__file__).parents[2]
FIRST = """
from pathlib import Path
import pytest
from tests.support.rerun_failed import ConservationError

def first_time(name=__name__):
    marker = Path(__file__).with_name(f"{name} was here")
    existed = marker.exists()
    marker.touch()
    return not existed

def test_passes():
    pass
"""
ONCE = """
def test_fails_once():
    assert not first_time()
"""
ALWAYS = """
def test_fails():
    assert False
"""
CONSERVATION = """
def test_loses_something_once():
    if first_time():
        try:
            raise ConservationError("answered twice")
        except AssertionError as broken:
            raise AssertionError("seed 7") from broken
"""
SKIPPED = """
def test_fails_and_is_then_skipped():
    if not first_time():
        pytest.skip("its server is gone")
    assert False
"""
DIES = """
import os

def test_kills_its_worker():
    if first_time():
        os._exit(1)
"""
MANY = f"""
@pytest.mark.parametrize("number", range({MAX_TESTS + 1}))
def test_fails_once(number):
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
def test_a_test_that_passes_alone_does_not_fail_the_run_and_is_named(
    tmp_path: Path, workers: str
) -> None:
    done = run(tmp_path, workers, "--rerun-failed", source=ONCE)
    assert done.returncode == 0, done.stdout
    assert "1 failed, 1 passed" in done.stdout  # the run says what happened in it
    assert done.stdout.rstrip().endswith("please fix:\n  test_0.py::test_fails_once")


def test_a_test_that_fails_alone_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "--rerun-failed", source=ALWAYS)
    assert done.returncode == 1
    assert "Rerun, alone" in done.stdout and "please fix" not in done.stdout


@pytest.mark.parametrize(
    ("source", "files"),
    [(CONSERVATION, 1), (MANY, 1), (ONCE, MAX_FILES + 1)],
    ids=["conservation error", "many tests", "many files"],
)
def test_a_conservation_error_and_many_failures_are_not_rerun(
    tmp_path: Path, source: str, files: int
) -> None:
    done = run(tmp_path, "--rerun-failed", source=source, files=files)
    assert done.returncode == 1
    assert "Rerun, alone" not in done.stdout


def test_a_test_that_is_skipped_in_the_rerun_still_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, "--rerun-failed", source=SKIPPED).returncode == 1


def test_a_dead_worker_and_an_import_error_fail_the_run(tmp_path: Path) -> None:
    """Their tests did not run, so a rerun of the failed ones cannot make the run pass."""
    options = ("-n2", "--max-worker-restart=0", "--dist", "loadfile", "--rerun-failed")
    done = run(tmp_path, *options, source=DIES)
    assert done.returncode != 0 and "Rerun, alone" not in done.stdout, done.stdout
    (tmp_path / "test_broken.py").write_text("import nothing_of_that_name")
    done = run(tmp_path, *options, source=ONCE)
    assert done.returncode != 0 and "Rerun, alone" not in done.stdout, done.stdout


def test_an_interrupted_run_still_fails(tmp_path: Path) -> None:
    done = run(tmp_path, "--rerun-failed", "-x", source=ONCE)
    assert done.returncode == 1
    assert "Rerun, alone" not in done.stdout


def test_nothing_is_rerun_without_the_option(tmp_path: Path) -> None:
    assert run(tmp_path, source=ONCE).returncode == 1
