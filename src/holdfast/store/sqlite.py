"""The store on SQLite: one file, one writer thread with group commit, a reader beside it."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from holdfast.core.crash import Crash, never
from holdfast.core.facts import StoreFacts
from holdfast.core.ids import InboxId, SessionId
from holdfast.core.reset import Deadline, Expiring
from holdfast.core.search import FoundRecord, SearchQuery, SearchState
from holdfast.store import expiry_reads, reads
from holdfast.store.journal import SqliteJournal
from holdfast.store.library import SqliteLibrary
from holdfast.store.reader import Reader
from holdfast.store.search.index import SearchIndex
from holdfast.store.touched import Touched
from holdfast.store.writer import Writer

SEARCH_FILE = "search.db"


class SqliteStore(SqliteJournal, SqliteLibrary):
    """`core.ports.Store`. Owns the file while its context is open.

    Closing writes what is queued, folds the log into the file and closes every handle; one
    that fails to close does not keep the others open.
    """

    def __init__(self, path: Path, *, crash: Crash = never, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._index = SearchIndex(path.with_name(SEARCH_FILE), state=path, vfs=vfs)
        touched = Touched(self._index.touched)
        self._writer = Writer(path, vfs=vfs, crash=crash, touched=touched)
        self._reader = Reader(path, vfs=vfs)
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
        async with Reader(self._path, vfs=self._vfs) as reader:
            return await reader.read(partial(expiry_reads.expiring, deadline=deadline, limit=limit))

    async def inbox_of(self, session_id: SessionId) -> list[InboxId]:
        async with Reader(self._path, vfs=self._vfs) as reader:
            return await reader.read(partial(reads.inbox_of, session_id=session_id))

    async def check(self) -> list[str]:
        """What is wrong with the file, as SQLite's `quick_check` finds it; empty: nothing.

        On a connection of its own: it reads the whole file, and no other read waits for it.
        """
        async with Reader(self._path, vfs=self._vfs) as reader:
            return await reader.read(reads.quick_check)
