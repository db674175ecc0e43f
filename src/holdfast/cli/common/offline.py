"""Reading the store with no gateway running: under the home's lock, as its owner for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.protocols import Store
from holdfast.store.backup.plan import PLAN_FILE
from holdfast.store.sqlite.inspection import has_wal
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

T = TypeVar("T")


def query_store(home: Path, query: Callable[[Store], Awaitable[T]], *, purpose: str) -> T | None:
    """What `ask` finds in the store; None: nothing was ever stored in this home.

    Raises `HomeInUse` when somebody else owns the data after all.
    """
    if not (_exists(Paths(home).db) or has_wal(Paths(home).db) or _exists(home / PLAN_FILE)):
        return None

    async def read() -> T:
        async with SqliteStore(Paths(home).db) as store:
            return await query(store)

    with HomeLock(home, purpose=purpose):
        return asyncio.run(read())


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        raise HoldfastError(
            f"{path} may not be read by this user; ask as the user who runs the gateway."
        ) from None
