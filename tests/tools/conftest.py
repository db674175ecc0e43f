"""Fixtures for tests of tools: tool contexts over a real runner."""

import itertools
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.tools.tool_contexts import NewContext

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import CallId, PrincipalId, SessionId
from holdfast.core.turns.tool import ToolContext
from holdfast.runner.runners import Runners
from holdfast.system.clock import SystemClock
from holdfast.system.egress import EgressPolicy


async def _ignore(_: object) -> None: ...


@pytest.fixture
async def new_context(tmp_path: Path) -> AsyncIterator[NewContext]:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap: apt install bubblewrap")
    runners = Runners(
        tmp_path,
        RunnerSettings(),
        clock=SystemClock(),
        on_started=_ignore,
        on_ended=_ignore,
        egress=EgressPolicy,
    )
    session_id = SessionId("s_1")
    numbers = itertools.count(1)

    def make(call_id: str = "", progress: Callable[[str], None] = lambda _: None) -> ToolContext:
        return ToolContext(
            session_id=session_id,
            principal=PrincipalId("u_1"),
            call_id=CallId(call_id or f"call_{next(numbers)}"),
            sandbox=runners.sandbox(session_id),
            progress=progress,
        )

    yield make
    await runners.end_all()
