"""What every endpoint works with: made once, by the composition root, and handed down."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.ops.facts import Document, Snapshot
from holdfast.core.ports.protocols import Clock, Lifecycle, NewId, Store
from holdfast.core.ports.sandbox import Bench
from holdfast.core.sessions.session import ProcessRow, SessionRow
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.redaction import Redaction
from holdfast.server.api.errors import Refused, not_found
from holdfast.server.api.pulse import Pulse
from holdfast.server.api.shared import SharedReads
from holdfast.server.api.views.session_views import SessionView, session_view
from holdfast.server.auth.login import Login
from holdfast.server.local.config_desk import ConfigDesk
from holdfast.server.status.minutes import Minutes
from holdfast.system.recent_log import RecentLog

_encode = msgspec.json.Encoder().encode


class Workbenches(Protocol):
    """What is asked of whoever owns the runners."""

    def bench(self, session_id: SessionId) -> Bench: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def end(self, session_id: SessionId, *, forget: bool = False) -> None: ...


class Room(msgspec.Struct, frozen=True, kw_only=True):
    gateway: Gateway
    store: Store
    runners: Workbenches
    home: Path
    login: Login
    clock: Clock
    new_id: NewId
    redact: Redaction
    pulse: Pulse
    shared: SharedReads
    minutes: Minutes
    log: RecentLog
    lifecycle: Lifecycle
    config_desk: ConfigDesk
    ready: Callable[[], bool]
    now: Callable[[], Snapshot]  # from memory alone
    fresh: Callable[[], Coroutine[Any, Any, Snapshot]]
    document: Callable[[Snapshot], Document]  # reads the disk: in a thread

    def encode(self, value: object) -> bytes:
        """A view as JSON, without the value of any secret: the one way out of here."""
        body = _encode(value)
        text = body.decode()
        shown = self.redact(text)
        return body if shown is text else shown.encode()

    def say(self, value: object, *, status: int = 200) -> web.Response:
        return web.Response(
            status=status,
            body=self.encode(value),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    async def session(self, session_id: str) -> SessionRow:
        row = await self.store.session(SessionId(session_id))
        if row is None:
            raise no_session(session_id)
        return row

    async def view(self, session_id: SessionId) -> SessionView:
        return self.view_of(await self.session(session_id))

    def view_of(self, row: SessionRow) -> SessionView:
        lane = self.gateway.lanes.get(row.id)
        return session_view(row, state=lane.state if lane else LaneState.IDLE)


def no_session(session_id: str) -> Refused:
    return not_found(f"there is no session {session_id!r}; GET /api/v1/sessions lists them.")
