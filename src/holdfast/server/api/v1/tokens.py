"""Tokens over HTTP: list, create, revoke."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.people.api_tokens import TokenScope
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.auth.tokens import TokenError, TokenRequest, TokenView, token_view


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest first."""

    tokens: list[TokenView]


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sessions`: for the scope `sessions`, as `X-Holdfast-Session` names them. `expires_in`:
    seconds; null: never."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    scope: TokenScope = TokenScope.TALK
    sessions: list[str] = []
    expires_in: float | None = None


class CreatedToken(msgspec.Struct, frozen=True, kw_only=True):
    """`token` is shown only here."""

    name: str
    scope: TokenScope
    token: str
    expires_at: float | None


class TokenQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


async def list_tokens(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(
        TokenList(tokens=[token_view(each) for each in context.tokens.tokens.all()])
    )


async def create_token(context: ApiContext, call: ApiCall[NoQuery, NewToken]) -> web.Response:
    asked = TokenRequest(
        name=call.body.name,
        scope=call.body.scope,
        sessions=tuple(call.body.sessions),
        expires_in=call.body.expires_in,
    )
    try:
        token = await context.tokens.create(asked, by=call.principal.actor)
    except TokenError as refused:
        raise conflict(refused, code="refused") from None
    made = context.tokens.tokens.by_name(asked.name)
    return context.respond(
        CreatedToken(
            name=made.name, scope=made.scope, token=token.reveal(), expires_at=made.expires_at
        ),
        status=201,
    )


async def revoke_token(context: ApiContext, call: ApiCall[TokenQuery, None]) -> web.Response:
    try:
        await context.tokens.revoke(call.query.name, by=call.principal.actor)
    except TokenError as refused:
        raise not_found(refused) from None
    return web.Response(status=204)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/tokens",
        summary="The created tokens, without their secrets.",
        handler=list_tokens,
        read_only=True,
        response_type=TokenList,
    ),
    Endpoint(
        method="POST",
        path="/tokens",
        summary="Create a token; only this response shows it.",
        handler=create_token,
        read_only=False,
        request_type=NewToken,
        response_type=CreatedToken,
        statuses=(201,),
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/tokens",
        summary="Revoke a token at once, with its logins and open connections.",
        handler=revoke_token,
        read_only=False,
        query=TokenQuery,
        statuses=(204,),
        error_statuses=(404,),
    ),
)
