"""What every endpoint works with: made once, by the composition root, and handed down."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.ops.facts import GatewaySnapshot, StatusReport
from holdfast.core.ports.protocols import Clock, IdFactory, Lifecycle, Store
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.sessions.session import ProcessRow, SessionRow
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.redaction import Redaction
from holdfast.server.api.errors import EndpointError, not_found
from holdfast.server.api.pulse import StreamKeepalive
from holdfast.server.api.shared import SharedReads
from holdfast.server.api.views.session_views import SessionView, session_view
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.local.config_desk import ConfigHandlers
from holdfast.server.status.minutes import MinuteHistory
from holdfast.system.recent_log import RecentLog

_encode = msgspec.json.Encoder().encode


class Sandboxes(Protocol):
    """What is asked of whoever owns the runners."""

    def sandbox(self, session_id: SessionId) -> Sandbox: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def end_session(self, session_id: SessionId, *, forget: bool = False) -> None: ...


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    gateway: Gateway
    store: Store
    runners: Sandboxes
    home: Path
    login: BrowserLogin
    clock: Clock
    new_id: IdFactory
    redact: Redaction
    keepalive: StreamKeepalive
    shared_reads: SharedReads
    minute_history: MinuteHistory
    recent_log: RecentLog
    lifecycle: Lifecycle
    config: ConfigHandlers
    ready: Callable[[], bool]
    snapshot: Callable[[], GatewaySnapshot]  # from memory alone
    fresh_snapshot: Callable[[], Coroutine[Any, Any, GatewaySnapshot]]
    status_report: Callable[[GatewaySnapshot], StatusReport]  # reads the disk: in a thread

    def encode(self, value: object) -> bytes:
        """A view as JSON, without the value of any secret: the one way out of here."""
        body = _encode(value)
        text = body.decode()
        shown = self.redact(text)
        return body if shown is text else shown.encode()

    def respond(self, value: object, *, status: int = 200) -> web.Response:
        return web.Response(
            status=status,
            body=self.encode(value),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    async def find_session(self, session_id: str) -> SessionRow:
        row = await self.store.session(SessionId(session_id))
        if row is None:
            raise no_session(session_id)
        return row

    async def load_session_view(self, session_id: SessionId) -> SessionView:
        return self.session_view(await self.find_session(session_id))

    def session_view(self, row: SessionRow) -> SessionView:
        lane = self.gateway.lanes.get(row.id)
        return session_view(row, state=lane.state if lane else LaneState.IDLE)


def no_session(session_id: str) -> EndpointError:
    return not_found(f"there is no session {session_id!r}; GET /api/v1/sessions lists them.")
