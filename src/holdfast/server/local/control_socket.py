"""The control socket: what the CLI asks of a running gateway, on the machine itself."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Self

import msgspec
from aiohttp import web

from holdfast.core.errors import RestartRefused, StoreError
from holdfast.core.ids import SessionId
from holdfast.core.ops.facts import GatewaySnapshot
from holdfast.core.ports.library import StoreReader
from holdfast.server.auth.viewers import ViewerTokenError
from holdfast.server.local.departing import LifecycleHandlers
from holdfast.system.paths import Paths, private_dir
from holdfast.system.socket_handover import HandoverFailed

_MAX_LIMIT = 1000


class LoginLinkParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    viewer: str = ""


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlSocket:
    """Owns the control socket while its context is open. Whoever can open it is its owner."""

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
        """`link` makes a one-time link that logs a browser in, as the viewer of that name, or as
        the owner for no name; `more` is what others serve here."""
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
        # Ours, and closed behind the server: a start that is cancelled as it opens would lose it.
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
        self._lifecycle.close()  # or the stream of whoever follows the stop would be waited for
        await self._exit_stack.aclose()
        self._path.unlink(missing_ok=True)

    async def _status(self, request: web.Request) -> web.Response:
        return _json(await self._fresh_snapshot())

    async def _login(self, request: web.Request) -> web.Response:
        asked = _decode_login_params(await request.read())
        try:
            return _json({"link": self._make_login_link(asked.viewer)})
        except ViewerTokenError as refused:
            raise web.HTTPNotFound(text=str(refused)) from None

    async def _sessions(self, request: web.Request) -> web.Response:
        limit = _int_query(request, "limit", 50)
        offset = _int_query(request, "offset", 0)
        rows = await self._reads.sessions(limit=min(limit, _MAX_LIMIT), offset=offset)
        return _json({"sessions": rows})

    async def _session(self, request: web.Request) -> web.Response:
        session_id = SessionId(request.match_info["id"])
        row = await self._reads.session(session_id)
        if row is None:
            text = f"there is no session {session_id!r}; `holdfast sessions list` has them all"
            return _json({"error": text}, status=404)
        records = await self._reads.transcript(session_id)
        turns = dict.fromkeys(record.turn_id for record in records if record.turn_id)
        rows = [await self._reads.turn(turn_id) for turn_id in turns]
        return _json({"session": row, "transcript": records, "turns": rows})


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPError as error:
        return _json({"error": error.text}, status=error.status)
    except (RestartRefused, HandoverFailed) as error:
        return _json({"error": str(error)}, status=409)
    except StoreError as error:
        return _json({"error": f"the store cannot be read: {error}"}, status=503)


def _decode_login_params(body: bytes) -> LoginLinkParams:
    try:
        return msgspec.json.decode(body or b"{}", type=LoginLinkParams)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _int_query(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise web.HTTPBadRequest(text=f"{name} must be a number, not {text!r}")
    return int(text)


def _json(body: object, *, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )
