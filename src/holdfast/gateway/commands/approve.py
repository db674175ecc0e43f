"""/approve: let a command run that waits for a person's word."""

from collections.abc import Awaitable

from holdfast.core.people.approval import Scope
from holdfast.core.people.commands import BY_NAME
from holdfast.gateway.approvals.service import Answer
from holdfast.gateway.commands.approving import Approving, is_target
from holdfast.gateway.commands.command import Asked
from holdfast.gateway.commands.reply import answer
from holdfast.gateway.services import House


class Approve:
    name = "approve"

    def __init__(self, house: House, approving: Approving) -> None:
        self._house = house
        self._approving = approving

    def begin(self, asked: Asked) -> Awaitable[None]:
        words = asked.argument.split()
        target = words.pop(0) if words and is_target(words[0]) else ""
        scope = words.pop(0).lower() if words else Scope.ONCE
        if words or scope not in list(Scope):
            return answer(self._house, asked.row, BY_NAME[self.name].misused("That is no answer."))
        said = Answer(approved=True, scope=Scope(scope))
        return self._approving.begin(asked, target=target.lower(), said=said)
