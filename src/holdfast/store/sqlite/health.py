"""The health of the store: how its commits go, told by the thread that makes them."""

import time
from collections.abc import Callable

from holdfast.core.ops.facts import StoreStatus


class WriterStatistics:
    """Owns the last commit and the last failure. Written by the writer's thread alone; each is one
    attribute, so any thread may read it."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._now = monotonic
        self._commits = 0
        self._last_commit: tuple[float, float] | None = None  # when, and how long it took
        self._slowest = 0.0
        self._failures = 0
        self._last_failure: tuple[float, str] | None = None
        self.schema = 0

    def begin_commit(self) -> float:
        return self._now()

    def commit_succeeded(self, begun: float) -> None:
        now = self._now()
        took = now - begun
        self._commits += 1
        self._last_commit = (now, took)
        self._slowest = max(self._slowest, took)

    def commit_failed(self, error: Exception) -> None:
        self._failures += 1
        self._last_failure = (self._now(), str(error))

    def status(self, *, waiting: int) -> StoreStatus:
        now, last, failed = self._now(), self._last_commit, self._last_failure
        return StoreStatus(
            schema=self.schema,
            commits=self._commits,
            waiting=waiting,
            committed_ago=now - last[0] if last else None,
            commit_seconds=last[1] if last else 0.0,
            slowest=self._slowest,
            failures=self._failures,
            error=failed[1] if failed else "",
            failed_ago=now - failed[0] if failed else None,
        )
