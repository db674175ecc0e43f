"""Pairing over HTTP: list, approve, deny, revoke."""

from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import PairingRefused
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, PairingView, pairing_view


async def list_pairing(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(pairing_view(context.gateway.pairing))


async def approve_pairing(context: ApiContext, call: ApiCall[NoQuery, PairingCode]) -> web.Response:
    """Responds with the new state of all of it."""
    try:
        decided = await context.gateway.pairing.approve(call.body.code, by=OPERATOR)
    except PairingRefused as refused:
        raise conflict(refused, code="locked") from None
    if decided.wrong:
        raise conflict(decided.text, code="wrong_code")
    return context.respond(pairing_view(context.gateway.pairing))


async def deny_pairing(context: ApiContext, call: ApiCall[PairingTarget, None]) -> web.Response:
    try:
        await context.gateway.pairing.deny(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(refused) from None
    return web.Response(status=204)


async def revoke_pairing(context: ApiContext, call: ApiCall[PairingTarget, None]) -> web.Response:
    try:
        await context.gateway.pairing.revoke(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(refused) from None
    return web.Response(status=204)


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/pairing",
        summary="Pairing requests and paired users.",
        handler=list_pairing,
        read_only=True,
        response_type=PairingView,
    ),
    Endpoint(
        method="POST",
        path="/pairing",
        summary="Approve a pairing request by its code, and notify the user.",
        handler=approve_pairing,
        read_only=False,
        request_type=PairingCode,
        response_type=PairingView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/requests",
        summary="Deny a pairing request; its code becomes invalid.",
        handler=deny_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/users",
        summary="Revoke the access of a paired user.",
        handler=revoke_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
)
