"""Pairing over HTTP: who asks to be let in and who was; letting in, denying and revoking."""

from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import PairingRefused
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.pairing import PairingCode, PairingWho, pairing_view


async def list_pairing(room: Room, call: Call[NoQuery, None]) -> web.Response:
    return room.say(pairing_view(room.gateway.pairing))


async def approve_pairing(room: Room, call: Call[NoQuery, PairingCode]) -> web.Response:
    """All of it as it is then: whoever shows it has it at once."""
    try:
        decided = await room.gateway.pairing.approve(call.body.code, by=OPERATOR)
    except PairingRefused as refused:
        raise conflict(str(refused), code="locked") from None
    if decided.wrong:
        raise conflict(decided.text, code="wrong_code")
    return room.say(pairing_view(room.gateway.pairing))


async def deny_pairing(room: Room, call: Call[PairingWho, None]) -> web.Response:
    try:
        await room.gateway.pairing.deny(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(str(refused)) from None
    return web.Response(status=204)


async def revoke_pairing(room: Room, call: Call[PairingWho, None]) -> web.Response:
    try:
        await room.gateway.pairing.revoke(call.query.who, by=OPERATOR)
    except PairingRefused as refused:
        raise not_found(str(refused)) from None
    return web.Response(status=204)
