"""What every endpoint works with: `ApiContext`, made once by the composition root."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import TranscriptRecord
from holdfast.core.ops.status import GatewaySnapshot, StatusReport
from holdfast.core.ports.runtime import Lifecycle, Runtime
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store import Store, StoreReader
from holdfast.core.ports.store_queries import GetSession, ListRecords
from holdfast.core.sessions.session import ProcessRow, SessionRow
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.app import Gateway
from holdfast.gateway.live.feeds import News, Subscription
from holdfast.server.api.errors import EndpointError, not_found
from holdfast.server.api.views.sessions import SessionView, session_view
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.tokens import TokenService
from holdfast.server.local.control_handlers import ConfigHandlers
from holdfast.server.status.minute_stats import MinuteHistory
from holdfast.system.logs import RecentLog

KEEPALIVE_INTERVAL = 15.0  # seconds; a proxy may close an idle connection


class StreamKeepalive:
    """Owns one timer for all open streams, which keeps proxies from closing idle ones."""

    def __init__(self, *, interval: float = KEEPALIVE_INTERVAL) -> None:
        self._interval = interval
        self._subscriptions: set[Subscription] = set()
        self._timer: asyncio.TimerHandle | None = None

    @contextmanager
    def track(self, subscription: Subscription) -> Iterator[None]:
        self._subscriptions.add(subscription)
        if self._timer is None:
            self._schedule()
        try:
            yield
        finally:
            self._subscriptions.discard(subscription)
            if not self._subscriptions and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._send_keepalives)

    def _send_keepalives(self) -> None:
        for subscription in self._subscriptions:
            subscription.tell(News.KEEPALIVE)
        self._schedule()


class SharedReads:
    """Shares reads of a session within one iteration of the event loop.

    A change wakes all streams of a session at once, and all of them need its row and its newest
    records. Later callers get a read of their own: one that began before a change must not answer
    for it.
    """

    def __init__(self, reads: StoreReader) -> None:
        self._reads = reads
        self._sessions: dict[SessionId, asyncio.Future[SessionRow | None]] = {}
        self._records: dict[tuple[SessionId, int, int], asyncio.Future[list[TranscriptRecord]]] = {}

    async def session(self, session_id: SessionId) -> SessionRow | None:
        reading = self._sessions.get(session_id)
        if reading is None:
            reading = asyncio.ensure_future(self._reads.read(GetSession(session_id=session_id)))
            self._sessions[session_id] = reading
            asyncio.get_running_loop().call_soon(self._sessions.pop, session_id)
        return await asyncio.shield(reading)

    async def records(
        self, session_id: SessionId, *, limit: int, after: int
    ) -> list[TranscriptRecord]:
        key = (session_id, limit, after)
        reading = self._records.get(key)
        if reading is None:
            reading = asyncio.ensure_future(
                self._reads.read(ListRecords(session_id=session_id, limit=limit, after=after))
            )
            self._records[key] = reading
            asyncio.get_running_loop().call_soon(self._records.pop, key)
        return await asyncio.shield(reading)


_encode = msgspec.json.Encoder().encode


class Sandboxes(Protocol):
    """The part of the runners that endpoints use."""

    def sandbox(self, session_id: SessionId) -> Sandbox: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]: ...
    async def end_session(self, session_id: SessionId, *, forget: bool = False) -> None: ...


class ApiStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Where endpoints read how the gateway is, and how it was."""

    ready: Callable[[], bool]
    snapshot: Callable[[], GatewaySnapshot]  # from memory alone
    fresh_snapshot: Callable[[], Coroutine[Any, Any, GatewaySnapshot]]
    report: Callable[[GatewaySnapshot], StatusReport]  # reads the disk: in a thread
    minute_history: MinuteHistory
    recent_log: RecentLog


class ApiContext(msgspec.Struct, frozen=True, kw_only=True):
    """What endpoints work with, and how they answer."""

    gateway: Gateway
    store: Store
    runners: Sandboxes
    home: Path
    login: BrowserLogin
    tokens: TokenService
    lifecycle: Lifecycle
    config: ConfigHandlers
    status: ApiStatus
    keepalive: StreamKeepalive
    shared_reads: SharedReads

    @property
    def runtime(self) -> Runtime:
        return self.gateway.runtime

    def encode(self, value: object) -> bytes:
        """A view as JSON, without the value of any secret. All responses go through here."""
        body = _encode(value)
        text = body.decode()
        shown = self.gateway.redact(text)
        return body if shown is text else shown.encode()

    def respond(self, value: object, *, status: int = 200) -> web.Response:
        return web.Response(
            status=status,
            body=self.encode(value),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )

    async def find_session(self, session_id: str) -> SessionRow:
        row = await self.store.read(GetSession(session_id=SessionId(session_id)))
        if row is None:
            raise no_session(session_id)
        return row

    async def load_session_view(self, session_id: SessionId) -> SessionView:
        return self.session_view(await self.find_session(session_id))

    def session_view(self, row: SessionRow) -> SessionView:
        lane = self.gateway.lanes.get(row.id)
        return session_view(row, state=lane.state if lane else LaneState.IDLE)


def no_session(session_id: str) -> EndpointError:
    return not_found(
        "There is no session {session!r}; GET /api/v1/sessions lists them.", session=session_id
    )
