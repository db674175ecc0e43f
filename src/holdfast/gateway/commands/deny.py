"""/deny: do not let a command run that waits for a person's word, and say why."""

from collections.abc import Awaitable

from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.gateway.commands.approving import ApprovalReplies, is_target
from holdfast.gateway.commands.command import CommandRequest


class DenyCommand:
    name = "deny"

    def __init__(self, approval_replies: ApprovalReplies) -> None:
        self._approval_replies = approval_replies

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        first, _, rest = request.argument.partition(" ")
        target, words = (first.lower(), rest) if is_target(first) else ("", request.argument)
        said = ApprovalResponse(approved=False, comment=words.strip())
        return self._approval_replies.begin(request, target=target, answer=said)
