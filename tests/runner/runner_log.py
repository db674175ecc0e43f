"""What the tests of runners share: a record of starts and ends, and the type of `open_runners`."""

from collections.abc import Callable

from holdfast.core.ids import SessionId
from holdfast.core.sessions.session import RunnerRow
from holdfast.runner.runners import Runners

OpenRunners = Callable[..., Runners]


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
