"""Pairing on the machine itself: what the owner of the home asks over the control socket."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import PairingDecision, PairingRefused, PairingService
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, pairing_view

Asked = TypeVar("Asked")


class PairingHandlers:
    """Owns nothing: `PairingService` decides, once it is known who waits; `ready` says whether."""

    def __init__(self, pairing: PairingService, *, ready: Callable[[], bool]) -> None:
        self._pairing = pairing
        self._ready = ready

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/pairing", self._list),
            web.post("/pairing/approve", self._approve),
            web.post("/pairing/deny", self._deny),
            web.post("/pairing/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        return _json(pairing_view(self._ready_pairing()))

    async def _approve(self, request: web.Request) -> web.Response:
        asked = await _decode_pairing_body(request, PairingCode)
        return await _decision_response(self._ready_pairing().approve(asked.code, by=OPERATOR))

    async def _deny(self, request: web.Request) -> web.Response:
        who = (await _decode_pairing_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().deny(who, by=OPERATOR))

    async def _revoke(self, request: web.Request) -> web.Response:
        who = (await _decode_pairing_body(request, PairingTarget)).who
        return await _decision_response(self._ready_pairing().revoke(who, by=OPERATOR))

    def _ready_pairing(self) -> PairingService:
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        return self._pairing


async def _decision_response(decision: Awaitable[PairingDecision]) -> web.Response:
    try:
        decided = await decision
    except PairingRefused as refused:
        raise web.HTTPConflict(text=str(refused)) from None
    if decided.wrong:
        raise web.HTTPConflict(text=decided.text)
    return _json({"told": decided.text})


async def _decode_pairing_body(request: web.Request, params_type: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(await request.read(), type=params_type)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
