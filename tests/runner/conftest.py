"""Fixtures for tests of runners: real sandboxes in a home of their own, which end with the test."""

import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from tests.runner.runner_log import SESSION_ID, OpenRunners, RunnerLog

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ports.sandbox import Sandbox
from holdfast.runner.bubblewrap import SandboxProbe
from holdfast.runner.runners import Runners
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy

DEFAULT_SETTINGS = RunnerSettings()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def runner_log() -> RunnerLog:
    return RunnerLog()


@pytest.fixture
async def open_runners(home: Path, runner_log: RunnerLog) -> AsyncIterator[OpenRunners]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    opened: list[Runners] = []

    def open_one(
        settings: RunnerSettings = DEFAULT_SETTINGS,
        *,
        programs: Sequence[str] | None = None,
        at: Path | None = None,
        egress: Callable[[], EgressPolicy] = EgressPolicy,
    ) -> Runners:
        runners = Runners(
            at or home,
            settings,
            clock=SystemClock(),
            on_started=runner_log.started,
            on_ended=runner_log.has_ended,
            egress=egress,
            probe=SandboxProbe(settings, runs=(at or home) / "runs", programs=programs),
        )
        opened.append(runners)
        return runners

    yield open_one
    for runners in opened:
        await runners.end_all()


@pytest.fixture
def runners(open_runners: OpenRunners) -> Runners:
    return open_runners()


@pytest.fixture
def sandbox(runners: Runners) -> Sandbox:
    """The sandbox of one session; its runner starts with the first call."""
    return runners.sandbox(SESSION_ID)
