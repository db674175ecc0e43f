"""Fixtures for tests of tools: tool contexts over a real runner."""

import itertools
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.turns.tool import ToolContext
from holdfast.runner.runners import Runners
from holdfast.system.clock import SystemClock

NewContext = Callable[..., ToolContext]


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def new_context(tmp_path: Path) -> AsyncIterator[NewContext]:
    """Build the context of the next tool call of one session, or of the call with the given id."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    runners = Runners(
        tmp_path, RunnerSettings(), clock=SystemClock(), on_started=_ignore, on_ended=_ignore
    )
    numbers = itertools.count(1)

    def make(call_id: str = "", progress: Callable[[str], None] = lambda _: None) -> ToolContext:
        return ToolContext(
            session_id="s_1",
            principal="u_1",
            call_id=call_id or f"call_{next(numbers)}",
            sandbox=runners.sandbox("s_1"),
            progress=progress,
        )

    yield make
    await runners.end_all()
