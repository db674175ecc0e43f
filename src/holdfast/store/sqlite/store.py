"""The store on SQLite: one file, one writer thread with group commit, one reader thread.

`command_handlers.py` and `query_handlers.py` say which function carries out what.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.crash_points import CrashHook, no_crash
from holdfast.core.ids import SessionId
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.ops.status import StoreStatus
from holdfast.core.ports import store_queries as q
from holdfast.core.ports.command import Query
from holdfast.core.ports.store_commands import ForgetMessageChanges
from holdfast.core.sessions.search import SearchIndexStatus, SearchQuery
from holdfast.store.search.index import MESSAGE_COMMANDS, SearchIndex
from holdfast.store.sqlite.command_handlers import SqliteStoreWriter
from holdfast.store.sqlite.connection import Redact, no_redaction
from holdfast.store.sqlite.file_check import SEARCH_FILE, quick_check
from holdfast.store.sqlite.query_handlers import QUERY_HANDLERS, SqliteStoreReader
from holdfast.store.sqlite.reader import ReaderThread
from holdfast.store.sqlite.reads import audit as audit_reads
from holdfast.store.sqlite.writer import WriterThread

R = TypeVar("R")


class SqliteStore(SqliteStoreWriter, SqliteStoreReader):
    """Implements the `Store` port. Owns the database file while its context is open.

    Closing commits what is queued, checkpoints the WAL and closes every handle; one that fails to
    close does not keep the others open.
    """

    def __init__(
        self,
        path: Path,
        *,
        crash: CrashHook = no_crash,
        vfs: str | None = None,
        redact: Redact = no_redaction,
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._index = SearchIndex(
            path.with_name(SEARCH_FILE), state=path, vfs=vfs, on_damage=self._on_search_damage
        )
        self._writer = WriterThread(path, vfs=vfs, crash=crash, redact=redact)
        self._reader = ReaderThread(path, vfs=vfs, on_damage=self._writer.refuse_writes)
        SqliteStoreWriter.__init__(self, self._writer)
        SqliteStoreReader.__init__(self, self._reader)
        self.events.on_committed(self._index.on_committed, *MESSAGE_COMMANDS)
        self._long_reads |= {
            SearchQuery: self._index.search,
            q.GetSearchStatus: lambda _: self._index.state(),
            q.CheckIntegrity: lambda _: self._check(),
        }
        self._open_parts = AsyncExitStack()

    async def __aenter__(self) -> "SqliteStore":
        async with AsyncExitStack() as opening:
            # The writer first: it may refuse the file, and a reader must not have touched it.
            await opening.enter_async_context(self._writer)
            await opening.enter_async_context(self._reader)
            await opening.enter_async_context(self._index)
            self._open_parts = opening.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open_parts.aclose()

    def _on_search_damage(self, found: str) -> None:
        self._writer.refuse_writes(found)

    @property
    def status(self) -> StoreStatus:
        """Statistics of the writer; may be read from any thread."""
        return self._writer.status

    async def read(self, query: Query[R]) -> R:
        if not _reads_whole_table(query):
            return await super().read(query)
        handler = QUERY_HANDLERS[type(query)]
        async with self._separate_reader() as reader:
            found: R = await reader.read(lambda cursor: handler(cursor, query))
            return found

    async def rebuild_search_index(self) -> SearchIndexStatus:
        return await self._index.rebuild()

    async def unindex_session(self, session_id: SessionId) -> None:
        await self._index.delete_session(session_id)
        await self.write(ForgetMessageChanges(session_id=session_id))

    async def erase_deleted(self) -> None:
        await self._writer.truncate_wal()

    async def _check(self) -> list[str]:
        """The problems that SQLite's `quick_check` finds in the file. If there are any, the store
        refuses all writes from now on.

        It reads the whole file, so it has a connection of its own: other reads do not wait for it.
        """
        async with self._separate_reader() as reader:
            try:
                problems = await reader.read(quick_check)
            except asyncio.CancelledError:
                reader.interrupt()
                raise
        if problems:
            self._writer.refuse_writes(problems[0])
        return problems

    @property
    def unclean(self) -> bool:
        """Whether the process before this one ended without closing the file."""
        return self._writer.unclean

    async def copy_to(self, path: Path, *, progress: Callable[[CopyProgress], None]) -> None:
        """Copy the whole file as of one moment, without blocking other reads and writes.

        The copying thread calls `progress`. Cancelling leaves an incomplete file at `path`.
        """
        from holdfast.store.backup import create  # noqa: PLC0415 - once a day

        cancelled = threading.Event()
        async with self._separate_reader() as reader:
            try:
                await reader.read(
                    partial(create.copy_database, to=path, cancelled=cancelled, progress=progress)
                )
            finally:
                cancelled.set()

    def _separate_reader(self) -> ReaderThread:
        """A connection of its own for long reads, so that no other read waits for them."""
        return ReaderThread(self._path, vfs=self._vfs, on_damage=self._writer.refuse_writes)


def _reads_whole_table(query: Query[Any]) -> bool:
    """Whether the query takes long in a large store."""
    if isinstance(query, q.ListAudit):
        return audit_reads.needs_full_scan(query.where)
    return isinstance(query, q.ListExpiringSessions)
