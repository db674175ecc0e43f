"""Routes an accepted message: to a command, to a pending approval, or to its session's lane."""

from typing import Protocol

from holdfast.core.commands import parse_command_word
from holdfast.core.ids import SessionId
from holdfast.core.messages.admission import with_session_mode
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.turns.turn import OpenTurn
from holdfast.gateway.approvals.service import ApprovalService
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.sessions.resolver import SessionStore


class CommandDispatcher(Protocol):
    """Runs commands (`gateway/commands/dispatcher.py`)."""

    def dispatch(self, accepted: Accepted, *, late: bool = False) -> bool: ...
    def run(self, accepted: Accepted, name: str, argument: str) -> None: ...
    def session_of(self, accepted: Accepted) -> SessionId | None: ...


class Router:
    """Has no state. `route` and `route_recovered` are synchronous: they decide at once."""

    def __init__(
        self,
        dispatcher: CommandDispatcher,
        sessions: SessionStore,
        *,
        approvals: ApprovalService,
        subscriptions: MessageSubscriptions,
    ) -> None:
        self._dispatcher = dispatcher
        self._sessions = sessions
        self._approvals = approvals
        self._subscriptions = subscriptions

    def route(self, accepted: Accepted) -> None:
        self._subscriptions.open(accepted.row.id)
        if not self._dispatcher.dispatch(accepted) and not self._take_approval_answer(accepted):
            self._admit(accepted)

    def route_recovered(self, accepted: Accepted) -> None:
        """Route a message of an earlier process: in order like any other, but stale commands are
        not run."""
        self._subscriptions.open(accepted.row.id)
        if self._dispatcher.dispatch(accepted, late=True) or self._take_approval_answer(accepted):
            return
        self._admit(accepted)

    def open_subscriptions(self, open_turn: OpenTurn) -> None:
        """Let clients that repeat a message of this recovered turn get its end."""
        for row in reversed(open_turn.rows):  # the last first: the others merge into it
            self._subscriptions.open(row.id)
            self._subscriptions.merge(row.id, into=open_turn.rows[-1].id)

    def _admit(self, accepted: Accepted) -> None:
        row = with_session_mode(accepted.row, accepted.busy_mode)
        self._sessions.admit(row, known=accepted.route_session, route_target=accepted.route_target)

    def _take_approval_answer(self, accepted: Accepted) -> bool:
        """A yes or no to a pending approval of this session runs as a command."""
        session_id = self._dispatcher.session_of(accepted)
        command = _approval_command(accepted.row.inbound, session_id, self._approvals)
        if command is None:
            return False
        self._dispatcher.run(accepted, *command)
        return True


def _approval_command(
    inbound: Inbound, session_id: SessionId | None, approvals: ApprovalService
) -> tuple[str, str] | None:
    """The command for a plain yes or no. None: the message is for the agent.

    As long as the turn that asked is not over it is an answer, even if a late or a second one:
    a second yes does not mean to stop the work that was just allowed.
    """
    command = parse_command_word(inbound.text) if inbound.commands else None
    if command is None or session_id is None:
        return None
    asked = approvals.pending_in(session_id) or approvals.of_turn(session_id)
    return command if asked else None
