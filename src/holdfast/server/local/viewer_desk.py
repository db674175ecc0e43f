"""Viewers' tokens on the machine itself: what the owner asks over the control socket."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.core.people.audit import ASKED, REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.journal import StoreWriter
from holdfast.core.ports.protocols import Clock
from holdfast.server.auth.viewers import ViewerTokenError, ViewerTokens
from holdfast.server.auth.visitor import HttpRole


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token, which is not the token."""

    name: str
    role: HttpRole
    made_at: float


class TokenName(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ViewerTokenHandlers:
    """Owns nothing: `ViewerTokens` does what is asked. Tokens are kept in a file, so that the row of the
    audit is written before, and again where it came to nothing."""

    def __init__(self, viewers: ViewerTokens, *, writes: StoreWriter, clock: Clock) -> None:
        self._viewers = viewers
        self._writes = writes
        self._clock = clock

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/tokens", self._list),
            web.post("/tokens", self._add),
            web.post("/tokens/revoke", self._revoke),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        listed = [
            TokenView(name=viewer.name, role=HttpRole.VIEWER, made_at=viewer.made_at)
            for viewer in self._viewers.all()
        ]
        return _tokens_json({"tokens": listed})

    async def _add(self, request: web.Request) -> web.Response:
        named = await _decode_token_name(request)
        await self._audit(AuditKind.TOKEN_ADDED, named.name, ASKED)
        try:
            token = await self._viewers.add(named.name)
        except ViewerTokenError as refused:
            await self._audit(AuditKind.TOKEN_ADDED, named.name, REFUSED)
            raise web.HTTPConflict(text=str(refused)) from None
        role = HttpRole.VIEWER
        return _tokens_json({"name": named.name, "role": role, "token": token.reveal()})

    async def _revoke(self, request: web.Request) -> web.Response:
        named = await _decode_token_name(request)
        await self._audit(AuditKind.TOKEN_REVOKED, named.name, ASKED)
        try:
            await self._viewers.revoke(named.name)
        except ViewerTokenError as refused:
            await self._audit(AuditKind.TOKEN_REVOKED, named.name, REFUSED)
            raise web.HTTPNotFound(text=str(refused)) from None
        return _tokens_json({"revoked": named.name})

    async def _audit(self, kind: AuditKind, name: str, outcome: str) -> None:
        at = self._clock.now()
        await self._writes.record_audit(
            AuditEntry(kind=kind, actor=OPERATOR, at=at, subject=name, outcome=outcome)
        )


async def _decode_token_name(request: web.Request) -> TokenName:
    try:
        return msgspec.json.decode(await request.read(), type=TokenName)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"this is not what is asked for here: {error}") from None


def _tokens_json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
