"""What a tool gets to work with: a context over a real runner."""

import itertools
import shutil
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.turns.tool import ToolContext
from holdfast.runner.runners import Runners

NewContext = Callable[..., ToolContext]


class RealClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def new_context(tmp_path: Path) -> AsyncIterator[NewContext]:
    """Each call of it is another tool call of one session, unless it is given its id."""
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    runners = Runners(
        tmp_path, RunnerSettings(), clock=RealClock(), on_started=_ignore, on_ended=_ignore
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
