"""The simulated vendor over HTTP, so that it can outlive the gateway that talks to it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from aiohttp import web

from holdfast.core.errors import AccountInUse, ConnectRefused, NotConnected
from holdfast.testing.simulated.events import (
    ConnectRefusal,
    CutStyle,
    EditRequest,
    Faults,
    FindRequest,
    ReactRequest,
    ReviseRequest,
    SayRequest,
    SendRequest,
    TypingRequest,
    VendorReply,
    VendorVerdict,
)
from holdfast.testing.simulated.service import ChatService

T = TypeVar("T")

_HTTP_STATUS = {
    VendorVerdict.TAKEN: 200,
    VendorVerdict.REPEATED: 200,
    VendorVerdict.NOT_FOUND: 200,
    VendorVerdict.FLOOD: 429,
    VendorVerdict.REFUSED: 400,
    VendorVerdict.GONE: 400,
    VendorVerdict.UNREACHABLE: 503,  # this vendor's word for: nothing was taken
}


class AckRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    up_to: int
    account: str = "default"


class FaultsRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /faults; what is left out stays as it is."""

    faults: Faults | None = None
    idempotent_send: bool | None = None


class SimulatedServer:
    """One `ChatService` behind routes: people use /say, /revise and /ledger, bots the rest."""

    def __init__(self, service: ChatService) -> None:
        self._service = service

    def application(self) -> web.Application:
        app = web.Application()
        app.add_routes(
            [
                web.get("/about", self._get_info),
                web.post("/say", self._say),
                web.get("/updates", self._updates),
                web.post("/ack", self._ack),
                web.get("/history", self._history),
                web.post("/send", self._send),
                web.post("/edit", self._edit),
                web.post("/find", self._find),
                web.post("/typing", self._typing),
                web.post("/react", self._react),
                web.post("/revise", self._revise),
                web.get("/ledger", self._ledger),
                web.post("/faults", self._set_faults),
            ]
        )
        return app

    async def _get_info(self, request: web.Request) -> web.Response:
        await self._service.wait_reachable()
        try:
            self._service.check_in()
        except NotConnected as error:
            return _json({"error": str(error)}, status=503)
        except ConnectRefused as error:
            return _json(ConnectRefusal(error=str(error), remedy=str(error.remedy)), status=401)
        except AccountInUse as error:
            return _json(ConnectRefusal(error=str(error), holder=error.holder), status=409)
        return _json(self._service.info)

    async def _say(self, request: web.Request) -> web.Response:
        return _json({"message_id": self._service.say(await _parse_body(request, SayRequest))})

    async def _updates(self, request: web.Request) -> web.Response:
        account = request.query.get("account", "default")
        try:
            updates = await self._service.updates(
                account,
                offset=int(_number(request, "offset")),
                wait=_number(request, "wait"),
            )
        except NotConnected as error:
            return _json({"error": str(error)}, status=503)
        return _json(updates)

    async def _history(self, request: web.Request) -> web.Response:
        account = request.query.get("account", "default")
        await self._service.wait_reachable()
        try:
            since = int(_number(request, "since"))
            return _json(self._service.history(account, since=since))
        except NotConnected as error:
            return _json({"error": str(error)}, status=503)

    async def _ack(self, request: web.Request) -> web.Response:
        ack = await _parse_body(request, AckRequest)
        await self._service.wait_reachable()
        try:
            self._service.ack(ack.account, up_to=ack.up_to)
        except NotConnected as error:
            return _json({"error": str(error)}, status=503)
        return _json({})

    async def _send(self, request: web.Request) -> web.Response:
        outgoing = await _parse_body(request, SendRequest)
        return await self._reply(request, lambda: self._service.send(outgoing))

    async def _edit(self, request: web.Request) -> web.Response:
        edit = await _parse_body(request, EditRequest)
        return await self._reply(request, lambda: self._service.edit(edit))

    async def _find(self, request: web.Request) -> web.Response:
        find = await _parse_body(request, FindRequest)
        return await self._reply(request, lambda: self._service.find(find))

    async def _typing(self, request: web.Request) -> web.Response:
        typing = await _parse_body(request, TypingRequest)
        return await self._reply(request, lambda: self._service.typing(typing))

    async def _react(self, request: web.Request) -> web.Response:
        react = await _parse_body(request, ReactRequest)
        return await self._reply(request, lambda: self._service.react(react))

    async def _revise(self, request: web.Request) -> web.Response:
        revise = await _parse_body(request, ReviseRequest)
        try:
            self._service.revise(revise)
        except KeyError as error:
            text = f"/revise: there is no message {revise.message_id}"
            raise web.HTTPNotFound(text=text) from error
        return _json({})

    async def _reply(self, request: web.Request, ask: Callable[[], VendorReply]) -> web.Response:
        faults = self._service.faults
        cut = CutStyle.SILENCE if faults.half_open else faults.cut
        answer = ask()
        status = _HTTP_STATUS.get(answer.verdict)
        if status is None:
            await _hang_up(request, cut)
            return _json({}, status=500)  # never written: the connection is gone
        return _json(answer, status=status, headers=_retry_headers(answer))

    async def _ledger(self, request: web.Request) -> web.Response:
        sent, edits = int(_number(request, "sent")), int(_number(request, "edits"))
        wait = _number(request, "wait")
        return _json(await self._service.wait_for_ledger(sent=sent, edits=edits, wait=wait))

    async def _set_faults(self, request: web.Request) -> web.Response:
        switches = await _parse_body(request, FaultsRequest)
        if switches.idempotent_send is not None:
            self._service.set_idempotent_send(switches.idempotent_send)
        if switches.faults is not None:
            self._service.set_faults(switches.faults)
        return _json(self._service.faults)


async def _hang_up(request: web.Request, cut: CutStyle) -> None:
    if cut is CutStyle.SILENCE:
        await asyncio.Event().wait()  # ends when the client gives up: the handler is cancelled
    if request.transport is not None:
        request.transport.abort()


async def _parse_body(request: web.Request, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{request.path}: {error}") from error


def _number(request: web.Request, name: str) -> float:
    value = request.query.get(name, "0")
    try:
        return float(value)
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"{name} is {value!r}; give a number") from error


def _json(
    content: object, *, status: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(content),
        status=status,
        headers=headers,
        content_type="application/json",
    )


def _retry_headers(answer: VendorReply) -> dict[str, str] | None:
    return None if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}


@asynccontextmanager
async def serve(service: ChatService, *, port: int = 0) -> AsyncIterator[str]:
    """The service on a loopback port while the context is open; yields its base URL."""
    face = SimulatedServer(service)
    runner = web.AppRunner(
        face.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        host, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()
