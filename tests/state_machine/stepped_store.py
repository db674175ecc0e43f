"""The store on its real file, its threads taken out: what they would do at some instant is done at
an instant that the test has drawn, so that a run can be repeated."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from holdfast.core.crash_points import no_crash
from holdfast.core.errors import StoreError, TransientStoreError
from holdfast.store.sqlite.connection import open_reader, open_writer
from holdfast.store.sqlite.reader import ReaderThread
from holdfast.store.sqlite.store_reader import SqliteStoreReader
from holdfast.store.sqlite.store_writer import SqliteStoreWriter
from holdfast.store.sqlite.worker import StoreRequest
from holdfast.store.sqlite.writer import WriterThread

T = TypeVar("T")

COMMIT, READ = "COMMIT", "READ"
WRITES = (
    *("accept", "decide", "begin", "reply", "started", "finished", "steer", "resume", "end"),
    *("suspend", "settle", "begin_attempt", "attempt", "leave", "go_on", "ask", "add"),
    *("plan", "skip", "change"),
)
FULL = "the disk is full; nothing of this was written"


class Weather:
    """How the disk is today: how slow, and what it refuses how often."""

    def __init__(self) -> None:
        self.latency = 0  # ticks from a write to its commit
        self.read_latency = 0
        self.stale = False  # a slow read has seen the file when it was asked for, not later
        self.refusing = False  # every write
        self.refusals: Counter[str] = Counter()  # so many of the next of that kind
        self.refused = 0
        self.undecided = False  # what a message does to a turn may not have been kept

    def refuses(self, kind: str) -> bool:
        if not (self.refusing and kind != READ) and not self.refusals[kind]:
            return False
        self.refusals[kind] -= bool(self.refusals[kind])
        self.refused += 1
        self.undecided |= kind in ("decide", COMMIT)
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
    """Owns the writing connection. Group commit as in the thread: what queued up is committed
    at once, and a write that fails undoes nothing but itself."""

    def __init__(self, path: Path, weather: Weather) -> None:
        super().__init__(path, vfs=None, crash=no_crash)
        self.db = open_writer(path, vfs=None)
        self.requests: list[StoreRequest] = []
        self.open = True
        self.dead = False  # with its process: whoever asks waits for ever
        self._weather = weather

    def submit(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.dead:
            return future
        if not self.open:
            raise StoreError("the store is closed: nothing can be written to it now")
        self.requests.append(StoreRequest(future, self._spoiled(work)))
        if len(self.requests) == 1:
            after(self._weather.latency, self.commit)
        return future

    def commit(self) -> None:
        requests, self.requests = self.requests, []
        if not self.open or not requests:
            return
        if self._weather.refuses(COMMIT):
            self._fail(requests, TransientStoreError(FULL))
        else:
            self._commit(self.db, requests)
        for request in requests:
            _resolve(request)

    def _spoiled(self, work: Callable[[apsw.Cursor], T]) -> Callable[[apsw.Cursor], T]:
        kind = work.func.__name__ if isinstance(work, partial) else ""
        # Asked once: a write that is done anew beside one that failed meets the same weather.
        refuses = cache(self._weather.refuses)

        def spoiled(cursor: apsw.Cursor) -> T:
            if refuses(kind):
                raise TransientStoreError(FULL)
            return work(cursor)

        return spoiled


class SteppedReader(ReaderThread):
    """Owns the reading connection; reads are done in the order in which they were asked for."""

    def __init__(self, path: Path, weather: Weather) -> None:
        super().__init__(path, vfs=None)
        self.db = open_reader(path, vfs=None)
        self.open = True
        self.dead = False  # with its process: whoever asks waits for ever
        self._weather = weather
        self._requests: deque[tuple[StoreRequest, bool]] = deque()

    def read(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self.dead:
            return future
        if not self.open:
            raise StoreError("the store is closed: nothing can be read from it now")
        request = StoreRequest(future, work)
        if self._weather.stale:
            self._run(self.db, request)
        self._requests.append((request, self._weather.stale))
        after(self._weather.read_latency, self._next)
        return future

    def finish(self) -> None:
        """A close stands behind the last read."""
        while self._requests:
            self._next()

    def _next(self) -> None:
        if not self.open or not self._requests:
            return
        request, done = self._requests.popleft()
        if self._weather.refuses(READ):
            request.error = StoreError("the disk failed; nothing was read")
        elif not done:
            self._run(self.db, request)
        _resolve(request)


def _resolve(request: StoreRequest) -> None:
    if request.future.done():
        return
    if request.error is None:
        request.future.set_result(request.result)
    else:
        request.future.set_exception(request.error)


class SteppedStore(SqliteStoreWriter, SqliteStoreReader):
    """`core.ports.Store` for one life of a gateway."""

    def __init__(self, path: Path, weather: Weather) -> None:
        self.writer = SteppedWriter(path, weather)
        self.reader = SteppedReader(path, weather)
        SqliteStoreWriter.__init__(self, self.writer)
        SqliteStoreReader.__init__(self, self.reader)

    async def __aenter__(self) -> "SteppedStore":
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.commit()
        self.reader.finish()
        self._close()

    def die(self) -> None:
        """What is not committed now never is, and nobody hears of it."""
        self.writer.dead = self.reader.dead = True
        self._close()

    def _close(self) -> None:
        if self.writer.open:
            self.writer.open = self.reader.open = False
            self.writer.db.close()
            self.reader.db.close()

    def look(self, read: Callable[..., T], **arguments: Any) -> T:
        """What is in the file right now."""
        request = StoreRequest(None, partial(read, **arguments))  # type: ignore[arg-type]  # nobody waits
        self.reader._run(self.reader.db, request)
        if request.error is not None:
            raise request.error
        return request.result  # type: ignore[no-any-return]
