"""A store that records which commands and queries it has carried out."""

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from holdfast.core.ids import SessionId
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store import Store, StoreEvents
from holdfast.core.sessions.search import SearchIndexStatus

R = TypeVar("R")


class RecordingStore:
    """Passes everything on to an open store. `exercised` are the types of the commands that were
    written and of the queries that were answered; one that fails does not count."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.exercised: set[type[Command[Any]] | type[Query[Any]]] = set()

    @property
    def events(self) -> StoreEvents:
        return self._store.events

    def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> Awaitable[R]:
        return self._record(
            type(command), self._store.write(command, audit=audit, deferred=deferred)
        )

    def read(self, query: Query[R]) -> Awaitable[R]:
        return self._record(type(query), self._store.read(query))

    def _record(self, kind: type[Any], result: Awaitable[R]) -> asyncio.Future[R]:
        def ended(future: asyncio.Future[R]) -> None:
            if not future.cancelled() and future.exception() is None:
                self.exercised.add(kind)

        future = asyncio.ensure_future(result)
        future.add_done_callback(ended)
        return future

    async def unindex_session(self, session_id: SessionId) -> None:
        await self._store.unindex_session(session_id)

    async def erase_deleted(self) -> None:
        await self._store.erase_deleted()

    async def rebuild_search_index(self) -> SearchIndexStatus:
        return await self._store.rebuild_search_index()

    async def __aenter__(self) -> "RecordingStore":
        return self

    async def __aexit__(self, *exc: object) -> None:
        """The store is closed by the code that opened it."""
