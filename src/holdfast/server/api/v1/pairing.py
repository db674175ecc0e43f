"""Pairing over HTTP: list, approve, deny, revoke."""

from aiohttp import web

from holdfast.core.people.approval import OPERATOR
from holdfast.gateway.inbound.pairing import PairingRefused
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.v1 import approvals
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, PairingView, pairing_view
from holdfast.server.api.views.sessions import (
    ApprovalDecisionParams,
    ApprovalRuleView,
    ApprovalView,
)


# MERGED holdfast.server.api.v1.pairing: Pairing over HTTP: who asks to be let in and who was; letting in, denying and revoking.
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


# MERGED holdfast.server.api.v1.people: Who decides and who is let in, in the table of `/api/v1`.
_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/approvals",
        summary="Commands that wait, or waited, for a person's word, the newest first.",
        handler=approvals.list_approvals,
        read_only=True,
        query=approvals.ApprovalsQuery,
        response_type=list[ApprovalView],
    ),
    Endpoint(
        method="POST",
        path="/approvals/{id}",
        summary="Answer one: once, for its conversation, or for good.",
        handler=approvals.decide_approval,
        read_only=False,
        request_type=ApprovalDecisionParams,
        response_type=ApprovalView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/approval-rules",
        summary="The approvals that stand.",
        handler=approvals.list_rules,
        read_only=True,
        response_type=list[ApprovalRuleView],
    ),
    Endpoint(
        method="DELETE",
        path="/approval-rules/{id}",
        summary="Revoke an approval that stands.",
        handler=approvals.revoke_rule,
        read_only=False,
        statuses=(204,),
    ),
    Endpoint(
        method="GET",
        path="/pairing",
        summary="Who asks to be let in, and who was.",
        handler=list_pairing,
        read_only=True,
        response_type=PairingView,
    ),
    Endpoint(
        method="POST",
        path="/pairing",
        summary="Let in whose code it is, and tell them.",
        handler=approve_pairing,
        read_only=False,
        request_type=PairingCode,
        response_type=PairingView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/requests",
        summary="Deny somebody: their code is worth nothing any more.",
        handler=deny_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/people",
        summary="Send somebody away who was let in.",
        handler=revoke_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
)
