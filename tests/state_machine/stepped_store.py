"""The SQLite store without its threads: each commit and read happens after a number of loop ticks
that the test has drawn, so that a run can be repeated."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.core.crash_points import no_crash
from holdfast.core.errors import StoreError, TransientStoreError
from holdfast.core.jobs.job import JobChange, RunPlan
from holdfast.core.people.approval import ApprovalRequest
from holdfast.core.people.pairing import PairingChange
from holdfast.core.ports import store_commands as c
from holdfast.core.ports.command import Command
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.store.sqlite.command_handlers import SqliteStoreWriter
from holdfast.store.sqlite.connection import open_reader, open_writer
from holdfast.store.sqlite.query_handlers import SqliteStoreReader
from holdfast.store.sqlite.reader import ReaderThread
from holdfast.store.sqlite.worker import StoreRequest
from holdfast.store.sqlite.writer import WriterThread

T = TypeVar("T")

COMMIT, READ = "COMMIT", "READ"
COMMANDS: tuple[type[Command[Any]], ...] = (
    *(c.AcceptMessage, c.RecordBusyDecision),
    *(BeginTurn, c.RecordReply, c.RecordCallsStarted, c.RecordCallResult, c.RecordSteer),
    *(c.ResumeTurn, c.ContinueTurn, c.MarkResumePending, c.ParkTurn, EndTurn),
    *(c.SuspendSession, CommandEffect, ApprovalRequest),
    *(c.AddDeliveries, c.BeginAttempt, c.SettleDelivery, c.BeginPart, c.SettlePart),
    *(PairingChange, c.AddJob, JobChange, RunPlan, c.SkipRuns),
)
WRITES = tuple(command.__name__ for command in COMMANDS)
DECIDE = c.RecordBusyDecision.__name__
DISK_FULL = "the disk is full. Nothing was written"


class SimulatedDisk:
    """Owns the latency of the disk, and which operations it refuses."""

    def __init__(self) -> None:
        self.latency = 0  # ticks from a write to its commit
        self.read_latency = 0
        self.stale = False  # a slow read sees the file as it was when requested
        self.refusing = False  # every write
        self.refusals: Counter[str] = Counter()  # of each kind, this many of the next
        self.refused = 0
        self.undecided = False  # a decision about a message may not be stored

    def refuses(self, kind: str) -> bool:
        if not (self.refusing and kind != READ) and not self.refusals[kind]:
            return False
        self.refusals[kind] -= bool(self.refusals[kind])
        self.refused += 1
        self.undecided |= kind in (DECIDE, COMMIT)
        return True

    def clear(self) -> None:
        self.latency = self.read_latency = 0
        self.refusing = False
        self.refusals.clear()


def after(ticks: int, do: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if ticks > 0:
        loop.call_soon(after, ticks - 1, do)
    else:
        loop.call_soon(do)


class SteppedWriter(WriterThread):
    """Owns the writing connection. Group commit as in the thread: queued writes are committed
    together, and a write that fails undoes only itself."""

    def __init__(self, path: Path, disk: SimulatedDisk) -> None:
        super().__init__(path, vfs=None, crash=no_crash)
        self.db = open_writer(path, vfs=None)
        self.requests: list[StoreRequest] = []
        self.open = True
        self.killed = False  # with its process: requests never end
        self._urgent = False  # a request waits that is not deferred
        self._disk = disk

    def submit(
        self,
        work: Callable[[apsw.Cursor], T],
        command: Command[T] | None = None,
        *,
        deferred: bool = False,
    ) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.killed:
            return future
        if not self.open:
            raise StoreError("the store is closed and cannot be written")
        if deferred:
            asyncio.get_running_loop().call_later(1.0, self.commit)
        elif not self._urgent:
            self._urgent = True
            after(self._disk.latency, self.commit)
        self.requests.append(
            StoreRequest(future, self._with_faults(work, command), command, self.events)
        )
        return future

    def commit(self) -> None:
        requests, self.requests, self._urgent = self.requests, [], False
        if not self.open or not requests:
            return
        if self._disk.refuses(COMMIT):
            self._fail(requests, TransientStoreError(DISK_FULL))
        else:
            self._commit(self.db, requests)
        for request in requests:
            request.settle()

    def _with_faults(
        self, work: Callable[[apsw.Cursor], T], command: Command[T] | None
    ) -> Callable[[apsw.Cursor], T]:
        kind = "" if command is None else type(command).__name__
        # Decided once: a write that is repeated beside one that failed gets the same answer.
        refuses = cache(self._disk.refuses)

        def work_or_fail(cursor: apsw.Cursor) -> T:
            if refuses(kind):
                raise TransientStoreError(DISK_FULL)
            return work(cursor)

        return work_or_fail


class SteppedReader(ReaderThread):
    """Owns the reading connection; reads are done in the order of the requests."""

    def __init__(self, path: Path, disk: SimulatedDisk) -> None:
        super().__init__(path, vfs=None)
        self.db = open_reader(path, vfs=None)
        self.open = True
        self.killed = False  # with its process: requests never end
        self._disk = disk
        self._requests: deque[tuple[StoreRequest, bool]] = deque()

    def read(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.killed:
            return future
        if not self.open:
            raise StoreError("the store is closed and cannot be read")
        request = StoreRequest(future, work)
        if self._disk.stale:
            self._run(self.db, request)
        self._requests.append((request, self._disk.stale))
        after(self._disk.read_latency, self._next)
        return future

    def finish(self) -> None:
        """Do all queued reads before the connection closes."""
        while self._requests:
            self._next()

    def _next(self) -> None:
        if not self.open or not self._requests:
            return
        request, done = self._requests.popleft()
        if self._disk.refuses(READ):
            request.error = StoreError("the disk failed; nothing was read")
        elif not done:
            self._run(self.db, request)
        request.settle()


class SteppedStore(SqliteStoreWriter, SqliteStoreReader):
    """`core.ports.Store` for one gateway run."""

    def __init__(self, path: Path, disk: SimulatedDisk) -> None:
        self.writer = SteppedWriter(path, disk)
        self.reader = SteppedReader(path, disk)
        SqliteStoreWriter.__init__(self, self.writer)
        SqliteStoreReader.__init__(self, self.reader)

    async def __aenter__(self) -> "SteppedStore":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.commit()
        self.reader.finish()
        self._close()

    def kill(self) -> None:
        """Drop what is not committed, without an error."""
        self.writer.killed = self.reader.killed = True
        self._close()

    def _close(self) -> None:
        if self.writer.open:
            self.writer.open = self.reader.open = False
            self.writer.db.close()
            self.reader.db.close()

    def look(self, read: Callable[..., T], **arguments: Any) -> T:
        """Read what is in the database now."""
        request = StoreRequest(None, partial(read, **arguments))  # type: ignore[arg-type]  # nothing waits
        self.reader._run(self.reader.db, request)
        if request.error is not None:
            raise request.error
        return request.result  # type: ignore[no-any-return]
