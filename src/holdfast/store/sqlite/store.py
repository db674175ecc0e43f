"""The store on SQLite: one file, one writer thread with group commit, a reader beside it."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from holdfast.core.crash_points import Crash, never
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.ops.backup import Copied
from holdfast.core.ops.facts import StoreFacts
from holdfast.core.people.audit import AuditFilter, AuditRow
from holdfast.core.sessions.reset import Deadline, Expiring
from holdfast.core.sessions.search import FoundRecord, SearchQuery, SearchState
from holdfast.store.search.index import SearchIndex
from holdfast.store.sqlite.checking import quick_check
from holdfast.store.sqlite.inspection import SEARCH_FILE
from holdfast.store.sqlite.journal import SqliteJournal
from holdfast.store.sqlite.opening import Redact, as_it_is
from holdfast.store.sqlite.reader import Reader
from holdfast.store.sqlite.reads import audit as audit_reads
from holdfast.store.sqlite.reads import expiry_reads, inbox
from holdfast.store.sqlite.store_reader import SqliteLibrary
from holdfast.store.sqlite.touched import Touched
from holdfast.store.sqlite.writer import Writer


class SqliteStore(SqliteJournal, SqliteLibrary):
    """`core.ports.Store`. Owns the file while its context is open.

    Closing writes what is queued, folds the log into the file and closes every handle; one
    that fails to close does not keep the others open.
    """

    def __init__(
        self,
        path: Path,
        *,
        crash: Crash = never,
        vfs: str | None = None,
        redact: Redact = as_it_is,
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._index = SearchIndex(
            path.with_name(SEARCH_FILE), state=path, vfs=vfs, on_damage=self._damaged
        )
        touched = Touched(self._index.touched)
        self._writer = Writer(path, vfs=vfs, crash=crash, touched=touched, redact=redact)
        self._reader = Reader(path, vfs=vfs, on_damage=self._writer.refuse)
        SqliteJournal.__init__(self, self._writer)
        SqliteLibrary.__init__(self, self._reader)
        self._open = AsyncExitStack()

    async def __aenter__(self) -> "SqliteStore":
        async with AsyncExitStack() as opening:
            # The writer first: it may refuse the file, and a reader must not have touched it.
            await opening.enter_async_context(self._writer)
            await opening.enter_async_context(self._reader)
            await opening.enter_async_context(self._index)
            self._open = opening.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._open.aclose()

    def _damaged(self, found: str) -> None:
        self._writer.refuse(found)

    @property
    def facts(self) -> StoreFacts:
        """How the writing goes; from any thread."""
        return self._writer.facts

    async def search(self, query: SearchQuery) -> list[FoundRecord]:
        return await self._index.search(query)

    async def search_state(self) -> SearchState:
        return await self._index.state()

    async def rebuild_search(self) -> SearchState:
        return await self._index.rebuild()

    async def forget(self, session_id: SessionId) -> None:
        await self._index.forget(session_id)

    async def scrub(self) -> None:
        await self._writer.scrub()

    async def expiring(self, *, deadline: Deadline, limit: int) -> list[Expiring]:
        async with self._apart() as reader:
            return await reader.read(partial(expiry_reads.expiring, deadline=deadline, limit=limit))

    async def inbox_of(self, session_id: SessionId) -> list[InboxId]:
        async with self._apart() as reader:
            return await reader.read(partial(inbox.of_session, session_id=session_id))

    async def check(self) -> list[str]:
        """What is wrong with the file, as SQLite's `quick_check` finds it; empty: nothing. If
        anything is, nothing is written any more, whoever asked.

        On a connection of its own: it reads the whole file, and no other read waits for it.
        """
        async with self._apart() as reader:
            try:
                found = await reader.read(quick_check)
            except asyncio.CancelledError:
                reader.interrupt()
                raise
        if found:
            self._writer.refuse(found[0])
        return found

    async def audit(self, wanted: AuditFilter, *, limit: int) -> list[AuditRow]:
        if not audit_reads.looks_far(wanted):
            return await super().audit(wanted, limit=limit)
        async with self._apart() as reader:
            return await reader.read(partial(audit_reads.listed, wanted=wanted, limit=limit))

    def redact_by(self, redact: Redact) -> None:
        """From now on the audit keeps its words without what this takes out. It is called by the
        thread that writes."""
        self._writer.redact = redact

    def when_audited(self, tell: Callable[[], None]) -> None:
        """`tell` is called in this event loop whenever the audit has more rows."""
        self._writer.grown.told(tell)

    @property
    def unclean(self) -> bool:
        """Whether the process before this one ended without closing the file."""
        return self._writer.unclean

    async def copy_to(self, path: Path, *, tell: Callable[[Copied], None]) -> None:
        """A copy of the whole file as it is at one instant, made beside whatever else is done.

        `tell` is called by the thread that copies. Cancelling it leaves half a file there.
        """
        from holdfast.store.backup import copying  # noqa: PLC0415 - once a day

        ended = threading.Event()
        async with self._apart() as reader:
            try:
                await reader.read(partial(copying.copy, to=path, ended=ended, tell=tell))
            finally:
                ended.set()

    def _apart(self) -> Reader:
        """For what reads much: on a connection of its own, so that no other read waits for it."""
        return Reader(self._path, vfs=self._vfs, on_damage=self._writer.refuse)
