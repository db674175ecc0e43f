"""Who decides and who is let in, in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import approvals, pairing
from holdfast.server.api.views.approval_views import (
    ApprovalDecisionParams,
    ApprovalRuleView,
    ApprovalView,
)
from holdfast.server.api.views.pairing import PairingCode, PairingTarget, PairingView

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
        handler=pairing.list_pairing,
        read_only=True,
        response_type=PairingView,
    ),
    Endpoint(
        method="POST",
        path="/pairing",
        summary="Let in whose code it is, and tell them.",
        handler=pairing.approve_pairing,
        read_only=False,
        request_type=PairingCode,
        response_type=PairingView,
        error_statuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/requests",
        summary="Deny somebody: their code is worth nothing any more.",
        handler=pairing.deny_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/people",
        summary="Send somebody away who was let in.",
        handler=pairing.revoke_pairing,
        read_only=False,
        query=PairingTarget,
        statuses=(204,),
        error_statuses=(404,),
    ),
)
