"""What the tests of runners share: a session, a record of starts and ends, and a fixture's type."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.ids import CallId, SessionId
from holdfast.core.ports.sandbox import CommandResult, Sandbox
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.runners import Runners
from holdfast.system.egress import EgressPolicy

SESSION_ID = SessionId("s_1")  # the session of the `sandbox` fixture


class OpenRunners(Protocol):
    """Build the `Runners` of a home, as a gateway does; the home is the test's own unless given."""

    def __call__(
        self,
        settings: RunnerSettings = ...,
        *,
        programs: Sequence[str] | None = None,
        at: Path | None = None,
        egress: Callable[[], EgressPolicy] = EgressPolicy,
    ) -> Runners: ...


class RunnerLog:
    """Records the runners that started and ended, as the store of a gateway does."""

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


async def attach_known(sandbox: Sandbox, call_id: CallId) -> CommandResult:
    """Attach to a call that the runner must know."""
    result = await sandbox.attach(call_id)
    assert result is not None
    return result
