"""Runners for tests: real sandboxes in a home of their own, none of which outlives its test."""

import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.runners import Runners


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class Ledger:
    """What a gateway would write down of its runners."""

    def __init__(self) -> None:
        self.rows: dict[SessionId, RunnerRow] = {}
        self.started_pids: list[int] = []
        self.ended: list[SessionId] = []

    async def started(self, row: RunnerRow) -> None:
        self.rows[row.session_id] = row
        self.started_pids.append(row.pid)

    async def has_ended(self, session_id: SessionId) -> None:
        self.rows.pop(session_id, None)
        self.ended.append(session_id)


OpenRunners = Callable[..., Runners]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def open_runners(home: Path, ledger: Ledger) -> AsyncIterator[OpenRunners]:
    """Makes the owner of runners in `home`, as a gateway does; settings as keywords."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    opened: list[Runners] = []

    def open_one(*, bwrap: str = "bwrap", at: Path = home, **settings: object) -> Runners:
        runners = Runners(
            at,
            RunnerSettings(**settings),
            clock=RealClock(),
            on_started=ledger.started,
            on_ended=ledger.has_ended,
            bwrap=bwrap,
        )
        opened.append(runners)
        return runners

    yield open_one
    for runners in opened:
        await runners.end_all()


@pytest.fixture
def runners(open_runners: OpenRunners) -> Runners:
    return open_runners()
