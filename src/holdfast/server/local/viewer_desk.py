"""Viewers' tokens on the machine itself: what the owner asks over the control socket."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, REFUSED, Act, AuditKind
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock
from holdfast.server.auth.viewers import ViewerRefused, Viewers
from holdfast.server.auth.visitor import VisitorRole


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token, which is not the token."""

    name: str
    role: VisitorRole
    made_at: float


class NamedToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ViewerDesk:
    """Owns nothing: `Viewers` does what is asked. Tokens are kept in a file, so that the row of the
    audit is written before, and again where it came to nothing."""

    def __init__(self, viewers: Viewers, *, journal: Journal, clock: Clock) -> None:
        self._viewers = viewers
        self._journal = journal
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/tokens", self._list),
            web.post("/tokens", self._add),
            web.post("/tokens/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        listed = [
            TokenView(name=viewer.name, role=VisitorRole.VIEWER, made_at=viewer.made_at)
            for viewer in self._viewers.listed()
        ]
        return _json({"tokens": listed})

    async def _add(self, request: web.Request) -> web.Response:
        named = await _read(request)
        await self._note(AuditKind.TOKEN_ADDED, named.name, ASKED)
        try:
            token = await self._viewers.add(named.name)
        except ViewerRefused as refused:
            await self._note(AuditKind.TOKEN_ADDED, named.name, REFUSED)
            raise web.HTTPConflict(text=str(refused)) from None
        role = VisitorRole.VIEWER
        return _json({"name": named.name, "role": role, "token": token.reveal()})

    async def _revoke(self, request: web.Request) -> web.Response:
        named = await _read(request)
        await self._note(AuditKind.TOKEN_REVOKED, named.name, ASKED)
        try:
            await self._viewers.revoke(named.name)
        except ViewerRefused as refused:
            await self._note(AuditKind.TOKEN_REVOKED, named.name, REFUSED)
            raise web.HTTPNotFound(text=str(refused)) from None
        return _json({"revoked": named.name})

    async def _note(self, kind: AuditKind, name: str, outcome: str) -> None:
        at = self._clock.now()
        await self._journal.record_act(
            Act(kind=kind, actor=OPERATOR, at=at, subject=name, outcome=outcome)
        )


async def _read(request: web.Request) -> NamedToken:
    try:
        return msgspec.json.decode(await request.read(), type=NamedToken)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
