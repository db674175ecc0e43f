"""/deny: do not let a command run that waits for a person's word, and say why."""

from collections.abc import Awaitable

from holdfast.gateway.approvals.service import Answer
from holdfast.gateway.commands.approving import Approving, is_target
from holdfast.gateway.commands.command import Asked


class Deny:
    name = "deny"

    def __init__(self, approving: Approving) -> None:
        self._approving = approving

    def begin(self, asked: Asked) -> Awaitable[None]:
        first, _, rest = asked.argument.partition(" ")
        target, words = (first.lower(), rest) if is_target(first) else ("", asked.argument)
        said = Answer(approved=False, words=words.strip())
        return self._approving.begin(asked, target=target, said=said)
