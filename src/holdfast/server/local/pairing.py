"""Pairing on the machine itself: what the owner of the home asks over the control socket."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import Decided, Pairing, PairingRefused
from holdfast.server.api.views.pairing import PairingCode, PairingWho, pairing_view

Asked = TypeVar("Asked")


class PairingDesk:
    """Owns nothing: `Pairing` decides, once it is known who waits; `ready` says whether."""

    def __init__(self, pairing: Pairing, *, ready: Callable[[], bool]) -> None:
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
        return _json(pairing_view(self._known()))

    async def _approve(self, request: web.Request) -> web.Response:
        asked = await _read(request, PairingCode)
        return await _told(self._known().approve(asked.code, by=OPERATOR))

    async def _deny(self, request: web.Request) -> web.Response:
        who = (await _read(request, PairingWho)).who
        return await _told(self._known().deny(who, by=OPERATOR))

    async def _revoke(self, request: web.Request) -> web.Response:
        who = (await _read(request, PairingWho)).who
        return await _told(self._known().revoke(who, by=OPERATOR))

    def _known(self) -> Pairing:
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        return self._pairing


async def _told(deciding: Awaitable[Decided]) -> web.Response:
    try:
        decided = await deciding
    except PairingRefused as refused:
        raise web.HTTPConflict(text=str(refused)) from None
    if decided.wrong:
        raise web.HTTPConflict(text=decided.text)
    return _json({"told": decided.text})


async def _read(request: web.Request, kind: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
