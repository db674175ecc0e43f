"""Who decides and who is let in, in the table of `/api/v1`."""

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.v1 import approvals, pairing
from holdfast.server.api.views.approval_views import ApprovalAnswer, ApprovalView, RuleView
from holdfast.server.api.views.pairing import PairingCode, PairingView, PairingWho

_SESSION = "/sessions/{id}"

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        method="GET",
        path="/approvals",
        about="Commands that wait, or waited, for a person's word, the newest first.",
        handler=approvals.list_approvals,
        looks=True,
        query=approvals.ApprovalsQuery,
        gives=list[ApprovalView],
    ),
    Endpoint(
        method="POST",
        path="/approvals/{id}",
        about="Answer one: once, for its conversation, or for good.",
        handler=approvals.answer_approval,
        looks=False,
        takes=ApprovalAnswer,
        gives=ApprovalView,
        refuses=(409,),
    ),
    Endpoint(
        method="GET",
        path="/approval-rules",
        about="The approvals that stand.",
        handler=approvals.list_rules,
        looks=True,
        gives=list[RuleView],
    ),
    Endpoint(
        method="DELETE",
        path="/approval-rules/{id}",
        about="Revoke an approval that stands.",
        handler=approvals.revoke_rule,
        looks=False,
        statuses=(204,),
    ),
    Endpoint(
        method="GET",
        path="/pairing",
        about="Who asks to be let in, and who was.",
        handler=pairing.list_pairing,
        looks=True,
        gives=PairingView,
    ),
    Endpoint(
        method="POST",
        path="/pairing",
        about="Let in whose code it is, and tell them.",
        handler=pairing.approve_pairing,
        looks=False,
        takes=PairingCode,
        gives=PairingView,
        refuses=(409,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/requests",
        about="Deny somebody: their code is worth nothing any more.",
        handler=pairing.deny_pairing,
        looks=False,
        query=PairingWho,
        statuses=(204,),
        refuses=(404,),
    ),
    Endpoint(
        method="DELETE",
        path="/pairing/people",
        about="Send somebody away who was let in.",
        handler=pairing.revoke_pairing,
        looks=False,
        query=PairingWho,
        statuses=(204,),
        refuses=(404,),
    ),
)
