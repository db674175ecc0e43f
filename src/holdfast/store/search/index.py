"""The search index: a thread that indexes new messages shortly after their commit and answers
searches."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

import apsw

from holdfast.core.errors import StoreError
from holdfast.core.ids import SessionId
from holdfast.core.messages.outbox import ProactiveDelivery
from holdfast.core.ports.command import Committed
from holdfast.core.ports.store_commands import (
    DeleteSession,
    ImportSession,
    RecordCallResult,
    RecordCompaction,
    RecordNote,
    RecordReply,
    RecordSteer,
    ReportFailedDelivery,
    ResumeTurn,
)
from holdfast.core.sessions.search import SearchIndexStatus, SearchMatch, SearchQuery
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.store.search import index_file, queries
from holdfast.store.search.index_file import ChangePosition
from holdfast.store.sqlite import errors
from holdfast.store.sqlite.worker import StoreRequest, StoreThread, resolve_requests

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Wake:
    """In the queue: there are new changes."""


_WAKE = _Wake()

# How long changes are collected for one transaction. No search waits for it: pending changes are
# indexed first.
_GATHER_SECONDS = 2.0
_TRANSACTION_SECONDS = 0.1  # of one transaction, which blocks checkpoints of the store's WAL
_CATCH_UP_SECONDS = 0.5  # of indexing, after which queued requests get their turn
_SEARCH_WAIT_SECONDS = 5.0  # that a search waits for an index that is far behind


# The commands that add or delete messages. Which sessions those are is read from the store, where
# triggers write it down: this only says when to look.
MESSAGE_COMMANDS = (
    BeginTurn,
    RecordReply,
    RecordCallResult,
    RecordSteer,
    RecordNote,
    RecordCompaction,
    ResumeTurn,
    EndTurn,
    CommandEffect,
    ProactiveDelivery,
    ReportFailedDelivery,
    ImportSession,
    DeleteSession,
)


class SearchIndex:
    """Owns `search.db` and its thread. The file is opened when it is first needed.

    It has no data of its own: it can be deleted at any time, and is rebuilt from the store.
    Problems are logged and reported to searches, and affect nothing else.
    """

    def __init__(
        self, path: Path, *, state: Path, vfs: str | None, on_damage: Callable[[str], None]
    ) -> None:
        """`on_damage` is called in the index's thread if the store's file is damaged."""
        self._path, self._state, self._vfs = path, state, vfs
        self._on_damage = on_damage
        self._queue: SimpleQueue[StoreRequest | _Wake | None] = SimpleQueue()
        self._thread = StoreThread("store-search", self._work)
        self._loop: asyncio.AbstractEventLoop | None = None  # None: closed
        self._db: apsw.Connection | None = None
        self._due: float | None = None  # when to index changes; None: there are none
        # Sessions to index, in order of their changes; True: from the start.
        self._pending: dict[SessionId, bool] = {}
        self._read_up_to: ChangePosition | None = None  # all later changes are still to be read
        self._saved: ChangePosition | None = None  # the position that the file has
        self._changed = False  # something was committed since the last read
        self._idle = True  # nothing is due; the thread must be woken

    async def __aenter__(self) -> "SearchIndex":
        self._loop = asyncio.get_running_loop()
        await self._thread.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._loop = None
        self._queue.put(None)
        await self._thread.join()

    def on_committed(self, event: Committed) -> None:
        """The messages of a session may have changed in the store. It never waits. A thread that
        gathers looks by itself when it is time, and is not woken for each commit until then."""
        self._changed = True
        if self._idle:
            self._queue.put(_WAKE)

    async def search(self, query: SearchQuery) -> list[SearchMatch]:
        def ask(cursor: apsw.Cursor) -> list[SearchMatch]:
            self._catch_up(until=time.monotonic() + _SEARCH_WAIT_SECONDS)
            return queries.find_records(cursor, query)

        return await self._submit(ask)

    async def delete_session(self, session_id: SessionId) -> None:
        await self._submit(partial(self._delete_session, session_id))

    async def state(self) -> SearchIndexStatus:
        return await self._submit(self._describe)

    async def rebuild(self) -> SearchIndexStatus:
        def rebuild(_: apsw.Cursor) -> SearchIndexStatus:
            self._discard()
            self._catch_up()
            return self._describe(self._open_db().cursor())

        return await self._submit(rebuild)

    def _submit(self, work: Callable[[apsw.Cursor], T]) -> asyncio.Future[T]:
        if self._loop is None or self._thread.ended:
            raise StoreError("{path} is closed and cannot be searched", path=self._path)
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(StoreRequest(future, work))
        return future

    def _work(self, ready: Callable[[], None]) -> None:
        ready()
        try:
            self._serve()
        finally:
            self._close()

    def _serve(self) -> None:
        """Until the close. Pending sessions are indexed after a while, or before a search."""
        while True:
            self._schedule()
            try:
                item = self._queue.get(timeout=self._wait())
            except Empty:
                self._catch_up_in_background()
                continue
            if item is None:
                return
            if isinstance(item, StoreRequest):
                self._run_request(item)

    def _schedule(self) -> None:
        """Changes are due a while after the first of them, so that constant changes do not delay
        it. `_idle` is set first: a change that arrives after the check finds it set, and wakes the
        thread."""
        self._idle = True
        if not self._pending and not self._changed:
            self._due = None
        else:
            self._due = self._due or time.monotonic() + _GATHER_SECONDS
            self._idle = False

    def _wait(self) -> float | None:
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def _run_request(self, request: StoreRequest) -> None:
        try:
            request.result = self._with_rebuild(lambda: request.work(self._open_db().cursor()))
        except Exception as error:  # noqa: BLE001 - raised where the request is awaited
            request.error = errors.to_store_error(error, self._path)
            self._close()
        resolve_requests(request.future.get_loop(), (request,))

    def _with_rebuild(self, work: Callable[[], T]) -> T:
        """Rebuilds a damaged index once and retries. If that fails the same way, the store is
        damaged, which the index is built from."""
        try:
            return work()
        except errors.DAMAGE_ERRORS as error:
            log.warning(
                "Search index %s is damaged (%s); rebuilding it from the store.",
                self._path,
                error,
                extra={"action": "search_index_rebuilt"},
            )
        self._discard()
        try:
            return work()
        except errors.DAMAGE_ERRORS as error:
            self._on_damage(str(error))
            raise errors.damaged_file(self._state, str(error)) from error

    def _catch_up_in_background(self) -> None:
        try:
            self._with_rebuild(lambda: self._catch_up(until=time.monotonic() + _CATCH_UP_SECONDS))
        except Exception as error:  # noqa: BLE001 - the edge of the index: it stops nothing else
            log.warning(
                "Could not update the search index: %s; messages that it lacks are not found until "
                "it is updated",
                errors.to_store_error(error, self._path),
                extra={"action": "search_index_failed"},
            )
            # Once it can be opened again, all that it lacks is found.
            self._pending.clear()
            self._changed, self._due = False, None
            self._close()

    def _open_db(self) -> apsw.Connection:
        """Opens the index. All sessions that changed since it was last open are pending then."""
        if self._db is None:
            self._db = index_file.open_index(self._path, state=self._state, vfs=self._vfs)
            self._pending = {}
            self._read_up_to = self._saved = index_file.saved_position(self._db.cursor())
            self._changed = True
        return self._db

    def _read_changes(self, cursor: apsw.Cursor) -> None:
        """Changed sessions become pending. The flag is reset first: a commit from then on may be
        read twice, but never missed."""
        self._changed = False
        since = self._read_up_to
        found = None if since is None else index_file.changes_since(cursor, since)
        if found is None:
            # First the position: what changes during the comparison is read after it.
            self._read_up_to = index_file.last_change(cursor)
            self._pending = dict.fromkeys(index_file.outdated_sessions(cursor), False)
            return
        self._read_up_to, changed = found
        for session_id, rewritten in changed.items():
            self._pending[session_id] = rewritten or self._pending.get(session_id, False)

    def _catch_up(self, *, until: float | None = None) -> None:
        """Indexes the pending sessions, one after the other; with `until`, only until that time. A
        close waits for at most one batch: the next opening finds the rest."""
        db = self._open_db()
        if self._changed:
            self._read_changes(db.cursor())
        while self._pending and self._loop is not None:
            if until is not None and time.monotonic() >= until:
                return
            with db:
                self._index_chunk(db.cursor())
        if not self._pending:
            self._due = None
            self._save_position(db)

    def _index_chunk(self, cursor: apsw.Cursor) -> None:
        enough = time.monotonic() + _TRANSACTION_SECONDS
        while self._pending and time.monotonic() < enough:
            session_id, rewritten = next(iter(self._pending.items()))
            if rewritten:
                index_file.delete_session(cursor, session_id)
                self._pending[session_id] = False
            if not index_file.index_next_batch(cursor, session_id):
                del self._pending[session_id]

    def _save_position(self, db: apsw.Connection) -> None:
        """Saves the position once everything that was read is indexed: after a crash, the rest is
        read again."""
        if self._read_up_to is not None and self._read_up_to != self._saved:
            with db:
                index_file.save_position(db.cursor(), self._read_up_to)
            self._saved = self._read_up_to

    def _delete_session(self, session_id: SessionId, cursor: apsw.Cursor) -> None:
        self._pending.pop(session_id, None)
        with cursor.connection:
            index_file.delete_session(cursor, session_id)
        # Its words are still in the WAL, which is restarted here.
        cursor.connection.wal_checkpoint("main", apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _describe(self, cursor: apsw.Cursor) -> SearchIndexStatus:
        self._catch_up(until=time.monotonic() + _SEARCH_WAIT_SECONDS)
        messages = index_file.count_entries(cursor)
        size = sum(
            path.stat().st_size for path in index_file.index_files(self._path) if path.exists()
        )
        return SearchIndexStatus(messages=messages, behind=len(self._pending), bytes=size)

    def _discard(self) -> None:
        self._close()
        index_file.delete_index_files(self._path)

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
