"""For commands that also work when no gateway runs: the API in this process, and the store.

Imports the gateway: import this module inside functions only.
"""

import asyncio
import http.client
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from holdfast.core.ports.store import Store
from holdfast.server.api.client import ApiClient
from holdfast.service.offline_api import OfflineApi, has_stored_data, offline_store
from holdfast.system.lock import HomeLock
from holdfast.system.paths import Paths

T = TypeVar("T")


@contextmanager
def open_offline_api(home: Path, *, purpose: str) -> Iterator[ApiClient]:
    """A client of the API's endpoints in this process. The home is locked while it is open."""
    with OfflineApi(home, purpose=purpose) as api:
        yield _OfflineClient(home, api)


def query_store(home: Path, query: Callable[[Store], Awaitable[T]], *, purpose: str) -> T | None:
    """What the query finds in the store, for what no endpoint answers; None: there is no store.

    Raises `HomeInUse` if another process holds the home.
    """
    if not has_stored_data(home):
        return None

    async def read() -> T:
        async with offline_store(Paths(home).db) as store:
            return await query(store)

    with HomeLock(home, purpose=purpose):
        return asyncio.run(read())


class _OfflineClient(ApiClient):
    def __init__(self, home: Path, api: OfflineApi) -> None:
        super().__init__(Paths(home), token=api.token)
        self._api = api

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        """Without a timeout: reading a large store may take long, and nothing else answers."""
        connection = http.client.HTTPConnection("localhost")
        connection.sock = self._api.connect()
        return connection
