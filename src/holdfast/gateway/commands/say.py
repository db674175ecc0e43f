"""/queue and /steer: a message that says itself what it does to the running turn."""

from collections.abc import Awaitable

import msgspec

from holdfast.core.messages.inbox import BusyMode
from holdfast.gateway.commands.command import CommandRequest
from holdfast.gateway.commands.reply import no_effect
from holdfast.gateway.sessions.resolver import SessionStore


class QueueSteerCommand:
    """What follows the command is a message like any other, and its answer is the turn's.

    Its row keeps the text as it was typed, so a restart reads the same decision from it.
    """

    def __init__(self, name: str, sessions: SessionStore, *, mode: BusyMode) -> None:
        self.name = name
        self._sessions = sessions
        self._mode = mode

    def begin(self, request: CommandRequest) -> Awaitable[None]:
        row = request.row
        inbound = msgspec.structs.replace(
            row.inbound,
            text=request.argument,
            busy_mode=self._mode,
            commands=False,
            mergeable=self._mode is not BusyMode.QUEUE,  # queued ones are a turn each
        )
        said = msgspec.structs.replace(row, inbound=inbound)
        self._sessions.admit(said, known=request.session_id, route_target=request.route_target)
        return no_effect()
