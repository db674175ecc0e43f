"""The writer thread: the only one that writes the file; it commits everything that has queued up
in one transaction."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import apsw

from holdfast.core.crash_points import CrashHook, CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ops.status import StoreStatus
from holdfast.core.ports.command import Command
from holdfast.store.events import CommandEvents
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checkpoint import WalCheckpointer, truncate_wal
from holdfast.store.sqlite.connection import Redact, no_redaction, open_writer
from holdfast.store.sqlite.file_check import has_wal
from holdfast.store.sqlite.totals import WriterConnection, advance_marks, count_missing
from holdfast.store.sqlite.worker import (
    DeferredRequest,
    NonTransactionalRequest,
    StoreRequest,
    StoreThread,
    resolve_requests,
)

log = logging.getLogger(__name__)


T = TypeVar("T")

_MAX_BATCH = 512  # requests in one transaction
_WRITES_PER_MARK = 1000  # after as many, the marks of the totals are advanced
_MAX_DEFERRAL = 1.0  # seconds until a deferred write is committed on its own

# A trigger on the table, not code in each write: every write is noticed, also future ones. A
# temporary trigger belongs to this connection and does not change the file.
_AUDIT_TRIGGER = """
CREATE TEMP TRIGGER audit_grown AFTER INSERT ON main.audit
BEGIN SELECT holdfast_audit_grew(new.seq); END;
"""


class WriterStatistics:
    """Owns the figures of the last commit and the last failure. Only the writer thread writes them;
    each is one attribute, so any thread may read them."""

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


class WriterThread(AbstractAsyncContextManager["WriterThread"]):
    """Owns the writing connection and its thread.

    `submit` queues at once, in call order, and returns a future that is resolved when the write is
    durable. Writes in one transaction fail separately: one that fails is rolled back alone. If the
    commit fails, all of them fail. A write must depend on the file only, since it may run a second
    time after a rollback.
    """

    def __init__(
        self,
        path: Path,
        *,
        vfs: str | None,
        crash: CrashHook,
        redact: Redact = no_redaction,
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._crash = crash
        self.redact = redact  # applied to the texts of audit rows
        self._audit_grew = False  # since the current request began; the thread's own
        self.events = CommandEvents()
        self._queue: SimpleQueue[StoreRequest | None] = SimpleQueue()
        self._deferred: list[DeferredRequest] = []  # taken from the queue; the thread's own
        self._thread = StoreThread("store-writer", self._work)
        self._loop: asyncio.AbstractEventLoop | None = None  # None: closed
        self._damage: Exception | None = None  # once found, all writes are refused
        self._statistics = WriterStatistics()
        self.unclean = False  # whether the previous process has not closed the file

    async def __aenter__(self) -> "WriterThread":
        loop = asyncio.get_running_loop()
        try:
            await self._thread.start()
        except BaseException:
            self._queue.put(None)
            raise
        self._loop = loop
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._loop = None
        self._queue.put(None)
        await self._thread.join()

    @property
    def status(self) -> StoreStatus:
        return self._statistics.status(waiting=self._queue.qsize())

    def submit(
        self,
        work: Callable[[apsw.Cursor], T],
        command: Command[T] | None = None,
        *,
        deferred: bool = False,
    ) -> asyncio.Future[T]:
        """`command`: what the work does, which is published once it has ended.

        `deferred` is for a write whose loss in a crash does no harm. It is committed together with
        the next write that is not deferred, after a second if there is none, and when the writer is
        closed. It still runs before every write that is submitted after it, and its future is
        resolved when it is durable."""
        if self._loop is None or self._thread.ended:
            raise StoreError("{path} is closed and cannot be written", path=self._path)
        future: asyncio.Future[T] = self._loop.create_future()
        request = DeferredRequest if deferred else StoreRequest
        self._queue.put(request(future, work, command, self.events))
        return future

    def refuse_writes(self, found: str) -> None:
        """The file is damaged: refuse all writes from now on. May be called from any thread."""
        if self._damage is None:
            damage = apsw.CorruptError(found)
            self._damage = damage
            self._statistics.commit_failed(errors.to_store_error(damage, self._path))
            log.error(
                "%s; refusing all writes from now on.",
                errors.damaged_file(self._path, found),
                extra={"action": "store_damaged"},
            )

    def truncate_wal(self) -> asyncio.Future[None]:
        """Checkpoint and truncate the WAL, so that it holds no deleted data."""
        if self._loop is None or self._thread.ended:
            raise StoreError("{path} is closed and cannot be written", path=self._path)
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(NonTransactionalRequest(future, truncate_wal))
        return future

    def _work(self, ready: Callable[[], None]) -> None:
        self.unclean = has_wal(self._path)
        db = open_writer(self._path, vfs=self._vfs, redact=lambda text: self.redact(text))
        try:
            db.create_scalar_function("holdfast_audit_grew", self._note_audit_growth, 1)
            db.execute(_AUDIT_TRIGGER)
            self._statistics.schema = db.pragma("user_version")
            ready()
            self._serve(db)
        finally:
            self._fail_queued()
            db.close()

    def _fail_queued(self) -> None:
        """Fails every queued request; after a close there are none."""
        left: list[StoreRequest | None] = [*self._deferred]
        while not self._queue.empty():
            left.append(self._queue.get_nowait())
        for request in left:
            if request is not None:
                request.error = StoreError(
                    "the thread that writes {path} has stopped", path=self._path
                )
                resolve_requests(request.future.get_loop(), (request,))

    def _serve(self, db: WriterConnection) -> None:
        """Process requests until the None that `__aexit__` queues after the last one."""
        checkpoints = WalCheckpointer(db, path=self._path)
        closing = False
        writes = count_missing(db)
        while not closing:
            batch = self._next_batch(checkpoints)
            requests = [request for request in batch if request is not None]
            closing = len(requests) < len(batch)
            if requests:
                self._process(db, requests)
                resolve_requests(requests[0].future.get_loop(), requests)
                writes += len(requests)
            if writes >= _WRITES_PER_MARK:
                writes = 0
                self._advance_marks(db)
        if not self._checkpoint(checkpoints):
            # Closing would try again, and fail again without a way to report it.
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _advance_marks(self, db: WriterConnection) -> None:
        """If this fails, reads have more rows to add up, until it succeeds after more writes."""
        if self._damage is None:
            try:
                advance_marks(db)
            except apsw.Error as error:
                self._fail([], error)

    def _next_batch(self, checkpoints: WalCheckpointer) -> list[StoreRequest | None]:
        """The deferred requests and then all queued ones, in the order of submission, as soon as
        one of them is not deferred, or the oldest deferred one is due."""
        due: float | None = None
        while True:
            batch = self._queued_requests(checkpoints, until=due)
            if not batch or not all([isinstance(each, DeferredRequest) for each in batch]):
                deferred, self._deferred = self._deferred, []
                return [*deferred, *batch]
            self._deferred += [each for each in batch if isinstance(each, DeferredRequest)]
            due = due or time.monotonic() + _MAX_DEFERRAL

    def _queued_requests(
        self, checkpoints: WalCheckpointer, *, until: float | None
    ) -> list[StoreRequest | None]:
        """All queued requests. While there are none, the WAL is checkpointed. Empty: there was none
        `until` then."""
        if checkpoints.overdue:
            self._checkpoint(checkpoints)
        batch: list[StoreRequest | None] = []
        idle = checkpoints.idle_delay
        try:
            if idle is not None:
                batch.append(self._queue.get(timeout=idle))
        except Empty:
            self._checkpoint(checkpoints)
        try:
            if not batch:
                wait = None if until is None else max(0.0, until - time.monotonic())
                batch.append(self._queue.get(timeout=wait))
        except Empty:
            return []
        for _ in range(min(self._queue.qsize(), _MAX_BATCH)):
            batch.append(self._queue.get_nowait())
        return batch

    def _checkpoint(self, checkpoints: WalCheckpointer) -> bool:
        """Checkpoints the WAL, but not into a damaged file, which must stay unchanged."""
        return self._damage is None and checkpoints.checkpoint()

    def _process(self, db: apsw.Connection, requests: list[StoreRequest]) -> None:
        outside = [each for each in requests if isinstance(each, NonTransactionalRequest)]
        if outside:
            requests = [each for each in requests if not isinstance(each, NonTransactionalRequest)]
        if requests:
            self._commit(db, requests)
        for request in outside:
            self._run_outside_transaction(db, request)

    def _run_outside_transaction(self, db: apsw.Connection, request: StoreRequest) -> None:
        if self._damage is not None:
            self._fail([request], self._damage)
            return
        try:
            request.work(db.cursor())
        except apsw.Error as error:
            self._fail([request], error)

    def _commit(self, db: apsw.Connection, requests: list[StoreRequest]) -> None:
        if self._damage is not None:
            self._fail(requests, self._damage)
            return
        cursor, begun = db.cursor(), self._statistics.begin_commit()
        try:
            self._write(cursor, requests)
            self._crash(CrashPoint.BEFORE_COMMIT)
            cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - every request of the transaction fails with it
            self._fail(requests, error)
            if db.in_transaction:
                cursor.execute("ROLLBACK")
        else:
            self._statistics.commit_succeeded(begun)
            self._crash(CrashPoint.AFTER_COMMIT)

    def _write(self, cursor: apsw.Cursor, requests: list[StoreRequest]) -> None:
        """Without savepoints at first: they are an eighth of the cost of a turn in this thread, and
        writes rarely fail. If one does, all run again, each in a savepoint of its own."""
        cursor.execute("BEGIN IMMEDIATE")
        try:
            for request in requests:
                self._audit_grew = False
                request.result = request.work(cursor)
                request.audited = self._audit_grew
        except Exception:
            if not cursor.connection.in_transaction:
                raise  # SQLite has rolled back the whole transaction: all requests of it fail
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN IMMEDIATE")
            for request in requests:
                self._run(cursor, request)

    def _run(self, cursor: apsw.Cursor, request: StoreRequest) -> None:
        cursor.execute("SAVEPOINT request")
        self._audit_grew = False
        try:
            request.result = request.work(cursor)
            request.audited = self._audit_grew
        except Exception as error:
            if not cursor.connection.in_transaction:
                raise  # SQLite has rolled back the whole transaction: all requests of it fail
            self._fail([request], error)
            cursor.execute("ROLLBACK TO request")
        cursor.execute("RELEASE request")

    def _note_audit_growth(self, *seq: Any) -> None:
        self._audit_grew = True

    def _fail(self, requests: list[StoreRequest], error: Exception) -> None:
        """Gives each request without an error one of its own to raise."""
        if isinstance(error, errors.DAMAGE_ERRORS):
            self.refuse_writes(str(error))
        if not isinstance(error, HoldfastError):  # a refusal by the write itself is no failure
            self._statistics.commit_failed(errors.to_store_error(error, self._path))
        for request in requests:
            if request.error is None:
                request.error = errors.to_store_error(error, self._path)
