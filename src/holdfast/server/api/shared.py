"""Shared reads: what many ask for in the same instant is read once."""

import asyncio

from holdfast.core.ids import SessionId
from holdfast.core.ports.library import StoreReader
from holdfast.core.sessions.session import SessionRow


class SharedReads:
    """Owns the reads of this very turn of the event loop.

    A change wakes everybody who looks at a session at once, and all of them want its row. Who
    asks later gets a read of their own: one that began before a change must not answer for it.
    """

    def __init__(self, reads: StoreReader) -> None:
        self._reads = reads
        self._pending: dict[SessionId, asyncio.Future[SessionRow | None]] = {}

    async def session(self, session_id: SessionId) -> SessionRow | None:
        reading = self._pending.get(session_id)
        if reading is None:
            reading = asyncio.ensure_future(self._reads.session(session_id))
            self._pending[session_id] = reading
            asyncio.get_running_loop().call_soon(self._pending.pop, session_id)
        return await asyncio.shield(reading)
