"""The writer: the one thread that writes the file, committing whatever has queued up at once."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

import apsw

from holdfast.core.crash_points import Crash, CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ops.facts import StoreFacts
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.checkpoint import Checkpoints, scrub
from holdfast.store.sqlite.grown import Grown
from holdfast.store.sqlite.health import Health
from holdfast.store.sqlite.inspection import has_log
from holdfast.store.sqlite.opening import Redact, as_it_is, open_writer
from holdfast.store.sqlite.requests import Aside, Request, settle
from holdfast.store.sqlite.touched import Touched
from holdfast.store.sqlite.worker import Worker

log = logging.getLogger(__name__)

T = TypeVar("T")

_MOST = 512  # commands in one transaction


class Writer(AbstractAsyncContextManager["Writer"]):
    """Owns the writing connection and its thread.

    `submit` queues at once, in call order, and returns a future that is resolved when the
    write is durable. Writes that share a transaction do not share their failures: one that fails
    undoes nothing but itself. If the commit fails, all of the transaction failed. A write is a
    function of the file alone, for it may be done a second time after the first was undone.
    """

    def __init__(
        self,
        path: Path,
        *,
        vfs: str | None,
        crash: Crash,
        touched: Touched | None = None,
        redact: Redact = as_it_is,
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._crash = crash
        self._touched = touched
        self.redact = redact  # what the audit keeps its words by
        self.grown = Grown()  # the audit
        self._queue: SimpleQueue[Request | None] = SimpleQueue()
        self._worker = Worker("store-writer", self._work)
        self._loop: asyncio.AbstractEventLoop | None = None  # None: closed
        self._damage: Exception | None = None  # once found, nothing is written any more
        self._health = Health()
        self.unclean = False  # whether whoever had the file before has not closed it

    async def __aenter__(self) -> "Writer":
        loop = asyncio.get_running_loop()
        try:
            await self._worker.start()
        except BaseException:
            self._queue.put(None)
            raise
        self._loop = loop
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._loop = None
        self._queue.put(None)
        await self._worker.join()

    @property
    def facts(self) -> StoreFacts:
        return self._health.facts(waiting=self._queue.qsize())

    def submit(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        if self._loop is None or self._worker.ended:
            raise StoreError(f"{self._path} is closed: nothing can be written to it now")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Request(future, work))
        return future

    def refuse(self, found: str) -> None:
        """The file was found damaged: nothing is written to it any more. From any thread."""
        if self._damage is None:
            damage = apsw.CorruptError(found)
            self._damage = damage
            self._health.failed(errors.explain(damage, self._path))
            log.error(
                "%s; nothing is written any more.",
                errors.damaged(self._path, found),
                extra={"action": "damaged"},
            )

    def scrub(self) -> asyncio.Future[None]:
        """Fold the log into the file and begin it anew, so that it holds nothing old."""
        if self._loop is None or self._worker.ended:
            raise StoreError(f"{self._path} is closed: nothing can be written to it now")
        future: asyncio.Future[None] = self._loop.create_future()
        self._queue.put(Aside(future, scrub))
        return future

    def _work(self, ready: Callable[[], None]) -> None:
        self.unclean = has_log(self._path)
        db = open_writer(self._path, vfs=self._vfs, redact=lambda text: self.redact(text))
        try:
            if self._touched is not None:
                self._touched.watch(db)
            self.grown.watch(db)
            self._health.schema = db.pragma("user_version")
            ready()
            self._serve(db)
        finally:
            self._abandon()
            db.close()

    def _abandon(self) -> None:
        """Nobody is left in the queue of a close; of a thread that dies, all are told."""
        while not self._queue.empty():
            request = self._queue.get_nowait()
            if request is not None:
                request.error = StoreError(f"the thread that writes {self._path} has stopped")
                settle(request.future.get_loop(), (request,))

    def _serve(self, db: apsw.Connection) -> None:
        """Until the close that stands behind the last write."""
        checkpoints = Checkpoints(db, path=self._path)
        closing = False
        while not closing:
            batch = self._take(checkpoints)
            requests = [request for request in batch if request is not None]
            closing = len(requests) < len(batch)
            if requests:
                self._do(db, requests)
                settle(requests[0].future.get_loop(), requests)
        if not self._fold(checkpoints):
            # Closing would try again, and fail again where nobody can be told.
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)

    def _take(self, checkpoints: Checkpoints) -> list[Request | None]:
        """Whatever has queued up. The log is folded while there is nothing."""
        if checkpoints.overdue:
            self._fold(checkpoints)
        try:
            batch = [self._queue.get(timeout=checkpoints.gap)]
        except Empty:
            self._fold(checkpoints)
            batch = [self._queue.get()]
        for _ in range(min(self._queue.qsize(), _MOST)):
            batch.append(self._queue.get_nowait())
        return batch

    def _fold(self, checkpoints: Checkpoints) -> bool:
        """Not into a damaged file, which is left as it was found."""
        return self._damage is None and checkpoints.fold()

    def _do(self, db: apsw.Connection, requests: list[Request]) -> None:
        asides = [request for request in requests if isinstance(request, Aside)]
        if len(asides) < len(requests):
            self._commit(db, [request for request in requests if not isinstance(request, Aside)])
        for request in asides:
            self._do_aside(db, request)

    def _do_aside(self, db: apsw.Connection, request: Request) -> None:
        if self._damage is not None:
            self._fail([request], self._damage)
            return
        try:
            request.work(db.cursor())
        except apsw.Error as error:
            self._fail([request], error)

    def _commit(self, db: apsw.Connection, requests: list[Request]) -> None:
        if self._damage is not None:
            self._fail(requests, self._damage)
            return
        cursor, begun = db.cursor(), self._health.begun()
        try:
            self._write(cursor, requests)
            self._crash(CrashPoint.BEFORE_COMMIT)
            cursor.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, those who share it are told
            self._fail(requests, error)
            if db.in_transaction:
                cursor.execute("ROLLBACK")
        else:
            self._health.committed(begun)
            self._crash(CrashPoint.AFTER_COMMIT)
            if self._touched is not None:
                self._touched.committed()
            self.grown.committed()

    def _write(self, cursor: apsw.Cursor, requests: list[Request]) -> None:
        """Without savepoints at first: they are an eighth of what a turn costs this thread, and a
        write hardly ever fails. If one does, all are done anew, each in a savepoint of its own."""
        cursor.execute("BEGIN IMMEDIATE")
        try:
            for request in requests:
                request.result = request.work(cursor)
        except Exception:
            if not cursor.connection.in_transaction:
                raise  # SQLite has undone the whole transaction: all who share it are told
            cursor.execute("ROLLBACK")
            cursor.execute("BEGIN IMMEDIATE")
            for request in requests:
                self._run(cursor, request)

    def _run(self, cursor: apsw.Cursor, request: Request) -> None:
        cursor.execute("SAVEPOINT request")
        try:
            request.result = request.work(cursor)
        except Exception as error:
            if not cursor.connection.in_transaction:
                raise  # SQLite has undone the whole transaction: all who share it are told
            self._fail([request], error)
            cursor.execute("ROLLBACK TO request")
        cursor.execute("RELEASE request")

    def _fail(self, requests: list[Request], error: Exception) -> None:
        """Each of those who are not told yet gets an error of its own to raise."""
        if isinstance(error, errors.DAMAGE):
            self.refuse(str(error))
        if not isinstance(error, HoldfastError):  # what a write itself refused is no fault
            self._health.failed(errors.explain(error, self._path))
        for request in requests:
            if request.error is None:
                request.error = errors.explain(error, self._path)
