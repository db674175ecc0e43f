"""Approvals over HTTP: list, decide, and the standing rules."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import ApprovalId, RuleId, SessionId
from holdfast.core.people.approval import (
    OPERATOR,
    Approval,
    ApprovalDecision,
    ApprovalRule,
    ApprovalScope,
    RuleMatch,
)
from holdfast.core.ports.store_queries import GetApproval, ListApprovalRules, ListApprovals
from holdfast.gateway.approvals.prompt import reason_for_person
from holdfast.gateway.approvals.service import ApprovalResponse, late_answer_text
from holdfast.server.api.context import ApiContext
from holdfast.server.api.endpoint import ApiCall, Endpoint, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.views.sessions import (
    ApprovalDecisionParams,
    ApprovalRuleView,
    ApprovalVerdict,
    ApprovalView,
    RuleMatchView,
)


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`pending`: only those that can still be decided. `session`: only of that session."""

    pending: bool = False
    session: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


async def list_approvals(context: ApiContext, call: ApiCall[ApprovalsQuery, None]) -> web.Response:
    """The newest first."""
    asked = call.query
    session_id = None if asked.session is None else SessionId(asked.session)
    rows = await context.store.read(
        ListApprovals(limit=asked.limit, pending=asked.pending, session_id=session_id)
    )
    return context.respond([approval_view(row) for row in rows])


async def decide_approval(
    context: ApiContext, call: ApiCall[NoQuery, ApprovalDecisionParams]
) -> web.Response:
    """The second of two answers, or a late one, is a conflict."""
    approval_id, body = ApprovalId(call.path_param("id")), call.body
    answer = ApprovalResponse(
        approved=body.answer is ApprovalVerdict.APPROVE,
        scope=body.scope if body.answer is ApprovalVerdict.APPROVE else ApprovalScope.ONCE,
        comment=body.comment.strip(),
    )
    decided = await context.gateway.approvals.decide(approval_id, answer)
    if decided is not None:
        return context.respond(approval_view(decided))
    known = context.gateway.approvals.find(approval_id) or await context.store.read(
        GetApproval(approval_id=approval_id)
    )
    if known is None:
        raise not_found(
            "There is no approval {approval!r}; GET /api/v1/approvals lists them.",
            approval=approval_id,
        )
    raise conflict(late_answer_text(known), code="already_decided")


async def list_rules(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """Those that have not expired."""
    now = context.runtime.clock.now()
    rules = await context.store.read(ListApprovalRules())
    return context.respond([_rule_view(rule) for rule in rules if rule.in_force(now)])


async def revoke_rule(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    rule_id = RuleId(call.path_param("id"))
    rules = {rule.id: rule for rule in await context.store.read(ListApprovalRules())}
    if rule_id not in rules:
        raise not_found(
            "There is no rule {rule!r}; GET /api/v1/approval-rules lists them.", rule=rule_id
        )
    at = context.runtime.clock.now()
    await context.store.write(ApprovalDecision(revoked=(rules[rule_id],), by=OPERATOR, at=at))
    return web.Response(status=204)


def approval_view(row: Approval) -> ApprovalView:
    return ApprovalView(
        id=row.id,
        session_id=row.session_id,
        asked_in=row.asked_in,
        turn_id=row.turn_id,
        number=row.number,
        tool=row.tool,
        command=row.command,
        rule=row.rule if row.may_stand else "",
        rules=[_match_view(match) for match in row.matches],
        reason=reason_for_person(row),
        requester=row.requester,
        approvers=list(row.approvers),
        asked_at=row.asked_at,
        deadline=row.deadline,
        state=row.state,
        scope=row.scope,
        by=row.by,
        comment=row.comment,
        ended_at=row.ended_at,
    )


def _match_view(match: RuleMatch) -> RuleMatchView:
    return RuleMatchView(
        rule=match.rule, reason=reason_for_person(match), part=match.part, target=match.target
    )


def _rule_view(rule: ApprovalRule) -> ApprovalRuleView:
    return ApprovalRuleView(
        id=rule.id,
        scope=rule.scope,
        session_id=rule.session_id,
        principal=rule.principal,
        rule=rule.rule,
        target=rule.target,
        reason=reason_for_person(rule),
        by=rule.by,
        created_at=rule.created_at,
        expires_at=rule.expires_at,
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/approvals",
        summary="Approvals, pending and decided, the newest first.",
        handler=list_approvals,
        read_only=True,
        query=ApprovalsQuery,
        response_type=list[ApprovalView],
    ),
    Endpoint(
        method="POST",
        path="/approvals/{id}",
        summary="Decide an approval: once, for its session, or always.",
        handler=decide_approval,
        read_only=False,
        request_type=ApprovalDecisionParams,
        response_type=ApprovalView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/approval-rules",
        summary="The standing approval rules.",
        handler=list_rules,
        read_only=True,
        response_type=list[ApprovalRuleView],
    ),
    Endpoint(
        method="DELETE",
        path="/approval-rules/{id}",
        summary="Revoke a standing approval rule.",
        handler=revoke_rule,
        read_only=False,
        statuses=(204,),
    ),
)
