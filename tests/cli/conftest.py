"""Fixtures for tests of the command line: the command itself, and gateways."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command_line import Cli, CliGateway, environment, running_gateway
from tests.support.fork_server import run_holdfast

from holdfast.testing.misbehaving_model.process import ModelProcess


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Run `holdfast` with the given arguments, in a home under `tmp_path`."""

    def run(
        *args: str, stdin: str | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        return run_holdfast(*args, env=environment(tmp_path) | environ, input=stdin)

    return run


@pytest.fixture(scope="session")
def model() -> Iterator[ModelProcess]:
    with ModelProcess() as process:
        yield process


@pytest.fixture
def gateway(tmp_path: Path, model: ModelProcess) -> Iterator[CliGateway]:
    """A gateway that the test may kill."""
    with running_gateway(tmp_path, model) as process:
        yield process


@pytest.fixture(scope="session")
def shared_gateway(
    tmp_path_factory: pytest.TempPathFactory, model: ModelProcess
) -> Iterator[CliGateway]:
    """One gateway for all tests that do not stop it; each has a session of its own."""
    with running_gateway(tmp_path_factory.mktemp("shared"), model) as process:
        yield process
