"""Pairing over HTTP: who asks to be let in and who was; letting in, denying and revoking."""

from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import PairingRefused
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import ApiContext
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, pairing_view


async def list_pairing(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    return context.respond(pairing_view(context.gateway.pairing))


async def approve_pairing(context: ApiContext, call: ApiCall[NoQuery, PairingCode]) -> web.Response:
    """All of it as it is then: whoever shows it has it at once."""
    try:
        decided = await context.gateway.pairing.approve(call.body.code, by=OPERATOR)
    except PairingRefused as refused:
        raise conflict(str(refused), code="locked") from None
    if decided.wrong:
        raise conflict(decided.text, code="wrong_code")
    return context.respond(pairing_view(context.gateway.pairing))


async def deny_pairing(context: ApiContext, call: ApiCall[PairingTarget, None]) -> web.Response:
    try:
        await context.gateway.pairing.deny(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(str(refused)) from None
    return web.Response(status=204)


async def revoke_pairing(context: ApiContext, call: ApiCall[PairingTarget, None]) -> web.Response:
    try:
        await context.gateway.pairing.revoke(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(str(refused)) from None
    return web.Response(status=204)
