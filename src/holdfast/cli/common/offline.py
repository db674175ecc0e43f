"""Reading the store with no gateway running: under the home's lock, as its owner for a moment."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.core.ports.protocols import Store
from holdfast.store.backup.plan import PLAN
from holdfast.store.sqlite.inspection import has_log
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

T = TypeVar("T")


def ask_store(home: Path, ask: Callable[[Store], Awaitable[T]], *, purpose: str) -> T | None:
    """What `ask` finds in the store; None: nothing was ever stored in this home.

    Raises `HomeInUse` when somebody else owns the data after all.
    """
    if not (_there(Paths(home).db) or has_log(Paths(home).db) or _there(home / PLAN)):
        return None

    async def read() -> T:
        async with SqliteStore(Paths(home).db) as store:
            return await ask(store)

    with HomeLock(home, purpose=purpose):
        return asyncio.run(read())


def _there(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        raise HoldfastError(
            f"{path} may not be read by this user; ask as the user who runs the gateway."
        ) from None
