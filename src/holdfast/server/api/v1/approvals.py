"""Approvals over HTTP: what waits for a word, saying it, and the words that stand."""

from typing import Annotated

import msgspec
from aiohttp import web

from holdfast.core.ids import ApprovalId, RuleId, SessionId
from holdfast.core.people.approval import OPERATOR, Approval, Decision, Scope
from holdfast.gateway.approvals.service import Answer, past
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.errors import conflict, not_found
from holdfast.server.api.room import Room
from holdfast.server.api.views.approval_views import ApprovalAnswer, ApprovalView, RuleView, Verdict


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`pending`: only what can still be answered. `session`: only what that one asked."""

    pending: bool = False
    session: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 50


async def list_approvals(room: Room, call: Call[ApprovalsQuery, None]) -> web.Response:
    """The newest first."""
    asked = call.query
    session_id = None if asked.session is None else SessionId(asked.session)
    rows = await room.store.approvals(
        limit=asked.limit, pending=asked.pending, session_id=session_id
    )
    return room.say([approval_view(row) for row in rows])


async def answer_approval(room: Room, call: Call[NoQuery, ApprovalAnswer]) -> web.Response:
    """Of two who answer at once one is told so; so is one who is too late."""
    approval_id, said = ApprovalId(call.part("id")), call.body
    answer = Answer(
        approved=said.answer is Verdict.APPROVE,
        scope=said.scope if said.answer is Verdict.APPROVE else Scope.ONCE,
        words=said.words.strip(),
    )
    decided = await room.gateway.approvals.decide(approval_id, answer)
    if decided is not None:
        return room.say(approval_view(decided))
    known = room.gateway.approvals.find(approval_id) or await room.store.approval(approval_id)
    if known is None:
        raise not_found(f"there is no approval {approval_id!r}; GET /api/v1/approvals lists them.")
    raise conflict(past(known), code="ended")


async def list_rules(room: Room, call: Call[NoQuery, None]) -> web.Response:
    rules = await room.store.standing_rules()
    return room.say([RuleView(**msgspec.structs.asdict(rule)) for rule in rules])


async def revoke_rule(room: Room, call: Call[NoQuery, None]) -> web.Response:
    rule_id = RuleId(call.part("id"))
    if rule_id not in {rule.id for rule in await room.store.standing_rules()}:
        raise not_found(f"there is no rule {rule_id!r}; GET /api/v1/approval-rules lists them.")
    decision = Decision(revoked=(rule_id,), by=OPERATOR, at=room.clock.now())
    await room.store.decide_approvals(decision)
    return web.Response(status=204)


def approval_view(row: Approval) -> ApprovalView:
    return ApprovalView(
        id=row.id,
        session_id=row.session_id,
        turn_id=row.turn_id,
        number=row.number,
        tool=row.tool,
        command=row.command,
        rule=row.rule,
        why=row.why,
        requester=row.requester,
        approvers=list(row.approvers),
        asked_at=row.asked_at,
        deadline=row.deadline,
        state=row.state,
        scope=row.scope,
        by=row.by,
        words=row.words,
        ended_at=row.ended_at,
    )
