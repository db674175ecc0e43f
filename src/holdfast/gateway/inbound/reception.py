"""Reception: where an accepted message goes: to the commands, to a question, or to its lane."""

from holdfast.core.messages.admission import with_session_mode
from holdfast.core.messages.inbox import Accepted
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.children import Subagents
from holdfast.gateway.commands.dispatcher import CommandDispatcher
from holdfast.gateway.inbound.words import approval_command
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.sessions.resolver import SessionStore


class Router:
    """Keeps nothing. Both ways in are plain functions: what they decide is decided at once."""

    def __init__(
        self,
        dispatcher: CommandDispatcher,
        sessions: SessionStore,
        *,
        approvals: ApprovalService,
        subagents: Subagents,
        subscriptions: MessageSubscriptions,
    ) -> None:
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._approvals = approvals
        self._subagents = subagents
        self._subscriptions = subscriptions

    def route(self, accepted: Accepted) -> None:
        if not self._dispatcher.dispatch(accepted) and not self._take_approval_answer(accepted):
            row = with_session_mode(accepted.row, accepted.busy_mode)
            self._sessions.admit(
                row, known=accepted.route_session, route_target=accepted.route_target
            )
            self._subagents.on_admitted(row)

    def route_recovered(self, accepted: Accepted) -> None:
        """A row from before this start: in order like any other, but no stale command."""
        self._subscriptions.open(accepted.row.id)
        if not self._dispatcher.dispatch(accepted, late=True) and not self._take_approval_answer(
            accepted
        ):
            row = with_session_mode(accepted.row, accepted.busy_mode)
            self._sessions.admit(
                row, known=accepted.route_session, route_target=accepted.route_target
            )

    def _take_approval_answer(self, accepted: Accepted) -> bool:
        """A yes or no to what was asked in this conversation goes to the commands."""
        session_id = self._dispatcher.session_of(accepted)
        command = approval_command(accepted.row.inbound, session_id, self._approvals)
        if command is None:
            return False
        self._dispatcher.run(accepted, *command)
        return True
