"""/approve: let a command run that waits for a person's word."""

from collections.abc import Awaitable

from holdfast.core.people.approval import ApprovalScope
from holdfast.core.people.commands import COMMANDS_BY_NAME
from holdfast.gateway.approvals.service import ApprovalResponse
from holdfast.gateway.commands.approving import ApprovalReplies, is_target
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import send_reply
from holdfast.gateway.services import Services


class ApproveCommand:
    name = "approve"

    def __init__(self, services: Services, approval_replies: ApprovalReplies) -> None:
        self._services = services
        self._approval_replies = approval_replies

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        words = request.argument.split()
        target = words.pop(0) if words and is_target(words[0]) else ""
        scope = words.pop(0).lower() if words else ApprovalScope.ONCE
        if words or scope not in list(ApprovalScope):
            return send_reply(
                self._services,
                request.row,
                COMMANDS_BY_NAME[self.name].usage_error("That is no answer."),
            )
        said = ApprovalResponse(approved=True, scope=ApprovalScope(scope))
        return self._approval_replies.begin(request, target=target.lower(), answer=said)
