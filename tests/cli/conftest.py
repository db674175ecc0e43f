"""The command line as a real process, with an environment of its own."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HOLDFAST = Path(sys.executable).parent / "holdfast"
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`holdfast` with the given arguments, in a home under `tmp_path`."""

    def run(*args: str, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [HOLDFAST, *args],
            env={"HOME": str(tmp_path), "HOLDFAST_HOME": str(tmp_path / "home"), **environ},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return run
