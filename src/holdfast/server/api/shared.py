"""Shared reads: what many ask for in the same instant is read once."""

import asyncio

from holdfast.core.ids import SessionId
from holdfast.core.ports.library import Library
from holdfast.core.sessions.session import SessionRow


class SharedReads:
    """Owns the reads of this very turn of the event loop.

    A change wakes everybody who looks at a session at once, and all of them want its row. Who
    asks later gets a read of their own: one that began before a change must not answer for it.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._reading: dict[SessionId, asyncio.Future[SessionRow | None]] = {}

    async def session(self, session_id: SessionId) -> SessionRow | None:
        reading = self._reading.get(session_id)
        if reading is None:
            reading = asyncio.ensure_future(self._library.session(session_id))
            self._reading[session_id] = reading
            asyncio.get_running_loop().call_soon(self._reading.pop, session_id)
        return await asyncio.shield(reading)
