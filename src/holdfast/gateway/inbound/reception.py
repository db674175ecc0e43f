"""Reception: where an accepted message goes: to the commands, to a question, or to its lane."""

from holdfast.core.messages.admission import chosen_for_session
from holdfast.core.messages.inbox import Accepted
from holdfast.gateway.approvals.service import Approvals
from holdfast.gateway.children import Children
from holdfast.gateway.commands.dispatcher import CommandDesk
from holdfast.gateway.inbound.words import meant
from holdfast.gateway.live.subscriptions import Watchers
from holdfast.gateway.sessions.resolver import SessionStore


class Reception:
    """Keeps nothing. Both ways in are plain functions: what they decide is decided at once."""

    def __init__(
        self,
        desk: CommandDesk,
        sessions: SessionStore,
        *,
        approvals: Approvals,
        children: Children,
        watchers: Watchers,
    ) -> None:
        self._desk = desk
        self._sessions = sessions
        self._approvals = approvals
        self._children = children
        self._watchers = watchers

    def admit(self, accepted: Accepted) -> None:
        if not self._desk.take(accepted) and not self._take_word(accepted):
            row = chosen_for_session(accepted.row, accepted.busy_mode)
            self._sessions.admit(row, known=accepted.route_session, pointed=accepted.pointed)
            self._children.admitted(row)

    def admit_late(self, accepted: Accepted) -> None:
        """A row from before this start: in order like any other, but no stale command."""
        self._watchers.open(accepted.row.id)
        if not self._desk.take(accepted, late=True) and not self._take_word(accepted):
            row = chosen_for_session(accepted.row, accepted.busy_mode)
            self._sessions.admit(row, known=accepted.route_session, pointed=accepted.pointed)

    def _take_word(self, accepted: Accepted) -> bool:
        """A yes or no to what was asked in this conversation goes to the commands."""
        session_id = self._desk.session_of(accepted)
        command = meant(accepted.row.inbound, session_id, self._approvals)
        if command is None:
            return False
        self._desk.carry_out(accepted, *command)
        return True
