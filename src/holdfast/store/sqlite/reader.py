"""The reader thread: it has its own connection, so that no read waits for the writer."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import apsw

from holdfast.core.errors import StoreError
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.connection import open_reader
from holdfast.store.sqlite.worker import StoreRequest, StoreThread, resolve_requests

T = TypeVar("T")


class ReaderThread(AbstractAsyncContextManager["ReaderThread"]):
    """Owns a reading connection and its thread; each read sees one snapshot of the file.

    `on_damage` is called in the reader's thread when a page is corrupt.
    """

    def __init__(
        self, path: Path, *, vfs: str | None, on_damage: Callable[[str], None] | None = None
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._on_damage = on_damage
        self._db: apsw.Connection | None = None
        self._queue: SimpleQueue[StoreRequest | None] = SimpleQueue()
        self._thread = StoreThread("store-reader", self._work)
        self._loop: asyncio.AbstractEventLoop | None = None  # None: closed

    async def __aenter__(self) -> "ReaderThread":
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

    def read(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        if self._loop is None or self._thread.ended:
            raise StoreError("{path} is closed and cannot be read", path=self._path)
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(StoreRequest(future, work))
        return future

    def interrupt(self) -> None:
        """Makes the current read fail at once."""
        if self._db is not None:
            self._db.interrupt()

    def _work(self, ready: Callable[[], None]) -> None:
        db = self._db = open_reader(self._path, vfs=self._vfs)
        try:
            ready()
            while (request := self._queue.get()) is not None:
                self._run(db, request)
                resolve_requests(request.future.get_loop(), (request,))
        finally:
            self._db = None
            db.close()

    def _run(self, db: apsw.Connection, request: StoreRequest) -> None:
        cursor = db.cursor()
        try:
            cursor.execute("BEGIN")
            request.result = request.work(cursor)
        except Exception as error:  # noqa: BLE001 - raised where the request is awaited
            request.error = errors.to_store_error(error, self._path)
            if self._on_damage is not None and isinstance(error, errors.DAMAGE_ERRORS):
                self._on_damage(str(error))
        finally:
            if db.in_transaction:
                cursor.execute("ROLLBACK")
