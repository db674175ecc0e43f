"""The control socket: status, sessions, login links, and stop, restart and handover."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self, TypeVar

import msgspec
from aiohttp import web

from holdfast.core.errors import RestartRefused, StoreError
from holdfast.core.ids import SessionId
from holdfast.core.ops.status import GatewaySnapshot
from holdfast.core.ports.runtime import Clock, Lifecycle
from holdfast.core.ports.store import StoreReader
from holdfast.core.ports.store_queries import GetSession, GetTranscript, GetTurn, ListSessions
from holdfast.core.text.translation import _, use_catalogue
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.server.api.views.gateway import RestartMode, RestartParams, StopParams
from holdfast.server.auth.tokens import TokenError
from holdfast.server.languages import request_catalogue
from holdfast.system.paths import Paths, private_dir
from holdfast.system.socket_handover import HandoverFailed


class LifecycleProgress:
    """Owns the followers of a start or a stop. Each gets the current phase first, then every
    later phase, until `close`."""

    def __init__(self) -> None:
        self._phase = ""
        self._closed = False
        self._followers: set[asyncio.Queue[str | None]] = set()

    def publish(self, phase: str) -> None:
        self._phase = phase
        for each in self._followers:
            each.put_nowait(phase)

    def close(self) -> None:
        self._closed = True
        for each in self._followers:
            each.put_nowait(None)

    async def follow(self) -> AsyncIterator[str]:
        queue: asyncio.Queue[str | None] = asyncio.Queue()
        queue.put_nowait(None if self._closed else self._phase)
        self._followers.add(queue)
        try:
            while (phase := await queue.get()) is not None:
                yield phase
        finally:
            self._followers.discard(queue)


P = TypeVar("P")

# Hands the sockets to the successor that waits at the path, and stops; or returns the name of the
# supervisor that must be asked instead.
StartHandover = Callable[[Path, StopOrder], Awaitable[str]]


class HandoverParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    to: str  # a private socket of the successor, in the home's folder of sockets


class LifecycleHandlers:
    """Stop, restart and handover of the process, asked for on the control socket.

    The response is a stream of JSON lines, one per phase. It ends when the control socket closes:
    that is near the end of the stop, not the end itself, which only the kernel can tell.
    """

    def __init__(
        self,
        lifecycle: Lifecycle,
        *,
        start_handover: StartHandover,
        progress: LifecycleProgress,
        clock: Clock,
    ) -> None:
        self._lifecycle = lifecycle
        self._start_handover = start_handover
        self._progress = progress
        self._clock = clock

    def close(self) -> None:
        self._progress.close()

    async def stop(self, request: web.Request) -> web.StreamResponse:
        params = await decode_body(request, StopParams)
        self._lifecycle.stop(self._stop_order(StopKind.STOP, now=params.now))
        return await self._stream_progress(request)

    async def restart(self, request: web.Request) -> web.StreamResponse:
        params = await decode_body(request, RestartParams)
        order = self._stop_order(StopKind.RESTART, now=params.mode is RestartMode.NOW)
        await self._lifecycle.restart(order, when_idle=params.mode is RestartMode.WHEN_IDLE)
        return await self._stream_progress(request)

    async def handover(self, request: web.Request) -> web.StreamResponse:
        """For a successor process: see `system/socket_handover.py`."""
        params = await decode_body(request, HandoverParams)
        order = StopOrder(kind=StopKind.REPLACE, by=StopRequester.SUCCESSOR, at=self._clock.now())
        if supervisor := await self._start_handover(Path(params.to), order):
            return web.json_response({"supervisor": supervisor})
        return await self._stream_progress(request)

    def _stop_order(self, kind: StopKind, *, now: bool) -> StopOrder:
        return StopOrder(kind=kind, by=StopRequester.CLI, at=self._clock.now(), now=now)

    async def _stream_progress(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        async for phase in self._progress.follow():
            await response.write(msgspec.json.encode({"phase": phase}) + b"\n")
        return response


_MAX_LIMIT = 1000


class LoginLinkParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    token: str = ""  # the name of one; "": for the owner


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlSocket:
    """Owns the control socket while its context is open. Its file mode is the access control: who
    can open it may do everything."""

    def __init__(
        self,
        paths: Paths,
        *,
        reads: StoreReader,
        fresh_snapshot: Callable[[], Awaitable[GatewaySnapshot]],
        make_login_link: Callable[[str], str],
        lifecycle: LifecycleHandlers,
        extra_routes: Sequence[web.RouteDef] = (),
    ) -> None:
        """`make_login_link` makes a one-time link that logs a browser in, with the token of that
        name, or as the owner if the name is empty."""
        self._path = paths.control_socket
        self._reads = reads
        self._fresh_snapshot = fresh_snapshot
        self._make_login_link = make_login_link
        self._lifecycle = lifecycle
        self._extra_routes = extra_routes
        self._exit_stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        application = web.Application(middlewares=[_errors_as_json])
        application.add_routes(
            [
                web.get("/status", self._status),
                web.get("/sessions", self._sessions),
                web.get("/sessions/{id}", self._session),
                web.post("/login", self._login),
                web.post("/stop", self._lifecycle.stop),
                web.post("/restart", self._lifecycle.restart),
                web.post("/handover", self._lifecycle.handover),
                *self._extra_routes,
            ]
        )
        # Closed after the server: a start that is cancelled here would leak it otherwise.
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._exit_stack.callback(listener.close)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
        self._exit_stack.push_async_callback(runner.cleanup)
        try:
            await runner.setup()
            private_dir(self._path.parent)
            self._path.unlink(missing_ok=True)
            listener.bind(str(self._path))
            self._path.chmod(0o600)
            await web.SockSite(runner, listener).start()
        except BaseException:
            await self._exit_stack.aclose()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._lifecycle.close()  # else the cleanup would wait for the progress streams
        await self._exit_stack.aclose()
        self._path.unlink(missing_ok=True)

    async def _status(self, request: web.Request) -> web.Response:
        return json_response(await self._fresh_snapshot())

    async def _login(self, request: web.Request) -> web.Response:
        params = await decode_body(request, LoginLinkParams)
        try:
            return json_response({"link": self._make_login_link(params.token)})
        except TokenError as refused:
            raise web.HTTPNotFound(text=refused.for_person()) from None

    async def _sessions(self, request: web.Request) -> web.Response:
        limit = _int_query(request, "limit", 50)
        offset = _int_query(request, "offset", 0)
        rows = await self._reads.read(ListSessions(limit=min(limit, _MAX_LIMIT), offset=offset))
        return json_response({"sessions": rows})

    async def _session(self, request: web.Request) -> web.Response:
        session_id = SessionId(request.match_info["id"])
        row = await self._reads.read(GetSession(session_id=session_id))
        if row is None:
            text = _(
                "There is no session {session!r}; `holdfast sessions list` lists them."
            ).format(session=session_id)
            return json_response({"error": text}, status=404)
        records = await self._reads.read(GetTranscript(session_id=session_id))
        turns = dict.fromkeys(record.turn_id for record in records if record.turn_id)
        rows = [await self._reads.read(GetTurn(turn_id=turn_id)) for turn_id in turns]
        return json_response({"session": row, "transcript": records, "turns": rows})


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors are in the language of the command line that asks."""
    with use_catalogue(request_catalogue(request, default="")):
        try:
            return await handler(request)
        except web.HTTPError as error:
            return json_response({"error": error.text}, status=error.status)
        except (RestartRefused, HandoverFailed) as error:
            return json_response({"error": error.for_person()}, status=409)
        except StoreError as error:
            text = _("The store cannot be read: {error}").format(error=error.for_person())
            return json_response({"error": text}, status=503)


def _int_query(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise web.HTTPBadRequest(
            text=_("{name} must be a number, not {value!r}.").format(name=name, value=text)
        )
    return int(text)


async def decode_body(request: web.Request, params_type: type[P]) -> P:
    """The JSON body, checked; no body is `{}`."""
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=params_type)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(
            text=_("The body is invalid: {error}").format(error=error)
        ) from None


def json_response(body: object, *, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )
