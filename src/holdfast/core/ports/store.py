"""The store port: everything durable is written by a command and read by a query."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.ops.backup import CopyProgress
from holdfast.core.ops.status import StoreStatus
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command, FailureSubscriber, Query, Subscriber
from holdfast.core.sessions.search import SearchIndexStatus
from holdfast.core.turns.stop import StopRow

R = TypeVar("R")


class StoreWriter(Protocol):
    """The writing half of the store."""

    def write(
        self, command: Command[R], *, audit: AuditEntry | None = None, deferred: bool = False
    ) -> Awaitable[R]:
        """Queue the command **when this is called**, in call order. The awaitable resumes once the
        command is durable; cancelling its awaiter does not cancel the write. A command that fails
        raises `StoreError` to its own awaiter and undoes nothing of its neighbours.

        With `audit`, if the command changes something, this audit row is part of its commit. With
        `deferred`, losing it in a crash does no harm, so it may be committed with the next command,
        or a second later if there is none.
        """
        ...


class StoreReader(Protocol):
    """The reading half of the store: reads never wait for writes. A read sees every write that was
    durable when it was requested."""

    def read(self, query: Query[R]) -> Awaitable[R]: ...


class StoreEvents(Protocol):
    """Tells subscribers about every command, in commit order, on the event loop. They are called
    after the commit and before the code that awaits it resumes. A subscriber that raises is
    logged, and the others are called all the same: work that must not be lost is a row, and is
    found again at the next start."""

    def on_committed(self, subscriber: Subscriber, *commands: type[Command[object]]) -> None:
        """Call it for each committed command of these types; of any type if none is named."""
        ...

    def on_failed(self, subscriber: FailureSubscriber, *commands: type[Command[object]]) -> None:
        """Call it for each command of these types that was not written."""
        ...


class DataErasure(Protocol):
    """Secure deletion: deleted text must also be gone from the disk."""

    async def unindex_session(self, session_id: SessionId) -> None:
        """Remove everything of the session from the search index."""
        ...

    async def erase_deleted(self) -> None:
        """Erase deleted data: nothing that was deleted before can then be read from the store's
        files. While a reader still uses an older snapshot of them, this takes effect when that
        reader ends."""
        ...

    async def rebuild_search_index(self) -> SearchIndexStatus:
        """Delete the search index and build it again from the store."""
        ...


class Store(StoreWriter, StoreReader, DataErasure, Protocol):
    """The whole store. Open while its context is; entering raises `StoreUnusable` and writes
    nothing if the file is damaged, foreign, newer than the program or not writable."""

    @property
    def events(self) -> StoreEvents: ...

    async def __aenter__(self) -> "Store": ...
    async def __aexit__(self, *exc: object) -> None: ...


class HomeStore(Store, Protocol):
    """The store of a home, as the process that owns the home uses it."""

    @property
    def status(self) -> StoreStatus:
        """Statistics of the writes; may be read from any thread."""
        ...

    @property
    def unclean(self) -> bool:
        """Whether the process before this one ended without closing the store."""
        ...

    async def copy_to(self, path: Path, *, progress: Callable[[CopyProgress], None]) -> None:
        """Copy everything as of one moment, without blocking reads and writes. `progress` may be
        called from another thread. Cancelling leaves an incomplete file at `path`."""
        ...

    async def __aenter__(self) -> "HomeStore": ...


class ClosedStoreCheck(msgspec.Struct, frozen=True, kw_only=True):
    """`needs_migration`: it has an older schema; the next gateway migrates it."""

    problems: list[str]
    needs_migration: bool


class ClosedStore(Protocol):
    """What a process that does not open the store of a home can find out about it. Nothing is
    written to it."""

    @property
    def software(self) -> str:
        """Name and version of the database, for people."""
        ...

    @property
    def newest_schema(self) -> int:
        """The schema version that this installation migrates a store to."""
        ...

    def exists(self) -> bool:
        """Whether anything was stored."""
        ...

    def files(self) -> list[Path]:
        """Its files in the home; only their owner may read them."""
        ...

    def last_changed(self) -> float | None:
        """When it was last written, as far as its files tell."""
        ...

    def check_openable(self) -> None:
        """Raises what opening it would raise, as far as that is known without opening it: another
        process may have it open."""
        ...

    def check(self) -> ClosedStoreCheck:
        """Reads all of it; no process has it open. Raises `StoreUnusable` if it is not a store, or
        newer than the program."""
        ...

    def read_last_stop(self) -> StopRow | None:
        """The last stop of a gateway; None: none was recorded, or it cannot be read. Takes no
        lock: a gateway may be starting at this moment."""
        ...
