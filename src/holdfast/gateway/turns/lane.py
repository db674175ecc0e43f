"""A lane: the one owner of a live session. It holds what is said to it, and the turn it is at."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.turn import LaneState, OpenTurn, lane_transition
from holdfast.gateway.approvals.pending import PendingApprovals
from holdfast.gateway.closing_write import RetriedWrite
from holdfast.gateway.services import Services
from holdfast.gateway.turns.admitting import admit_to_turn
from holdfast.gateway.turns.barrier import LanePause
from holdfast.gateway.turns.dormant_turn import DormantTurn
from holdfast.gateway.turns.endings import end_stopped
from holdfast.gateway.turns.mailbox import Mailbox
from holdfast.gateway.turns.turn import Turn


class Lane:
    """Owns one session's mailbox and the one turn that it is at: running, or set aside.

    `Course` runs its turns, one at a time, and alone sets and drops the one that is present.
    `admit` and `stop` are plain functions: what they decide is decided, and on its way to the log,
    before anything else can happen.
    """

    def __init__(self, session_id: SessionId, *, services: Services) -> None:
        self.session_id = session_id
        self.state = LaneState.IDLE
        self.routes: set[SessionKey] = set()  # those that brought it work
        self.task: asyncio.Task[None] | None = None  # what runs it
        self.pause: LanePause | None = None  # put down by who must have the session to themselves
        self.pending_reset: SessionReset | None = (
            None  # why it is fresh, until its people were told
        )
        self.pending_note: NoteMessage | None = None  # of a cut, until a turn was told of it
        self.approvals = PendingApprovals()  # what the present turn has asked people for
        self.held = False  # the gateway stops: no turn begins here any more
        self.on_change: Callable[[], None] | None = None  # told of each change while it stops
        self.mailbox = Mailbox(services.platforms)
        self.dormant_turn: DormantTurn | None = None  # the turn that is open and that nobody runs
        self.current_turn: Turn | None = (
            None  # the turn that has an agent, until its end is durable
        )
        self.closing_write: RetriedWrite | None = None  # the end of its turn, until that is durable
        self._services = services

    @property
    def queued(self) -> int:
        return len(self.mailbox)

    @property
    def busy(self) -> bool:
        """Something is being answered, or is about to be."""
        return self.answering is not None or bool(self.mailbox)

    @property
    def in_flight(self) -> int:
        """Messages that were accepted here and whose end is not yet durable and told."""
        turn = self.current_turn
        running = 0 if turn is None else len(turn.rows) + len(turn.steers)
        waiting = 0 if turn or self.dormant_turn is None else len(self.dormant_turn.rows)
        return running + waiting + len(self.mailbox)

    @property
    def running_turn(self) -> Turn | None:
        """The running turn; None: there is none, or it has ended and is on its way to the log."""
        return None if self.current_turn is None or self.current_turn.closed else self.current_turn

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the turn that is open."""
        if self.dormant_turn is not None:
            return self.dormant_turn.answering
        return None if self.running_turn is None else self.running_turn.rows[-1].id

    @property
    def open_turn_id(self) -> TurnId | None:
        """The one that is open, whether or not somebody runs it."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.id
        return None if self.current_turn is None else self.current_turn.turn_id

    @property
    def dormant_record(self) -> OpenTurn | None:
        """The open turn that nobody runs at the moment."""
        return None if self.dormant_turn is None else self.dormant_turn.open_turn

    @property
    def open_since(self) -> float | None:
        """When the turn began that is open here; None: there is none."""
        if self.dormant_turn is not None:
            return self.dormant_turn.open_turn.turn.started_at
        turn = self.current_turn
        return None if turn is None or turn.closed else turn.started_at

    @property
    def queued_since(self) -> float | None:
        """Since when the message waits that is next; None: none does."""
        return self.mailbox[0].accepted_at if self.mailbox else None

    @property
    def waiting_messages(self) -> Sequence[InboxRow]:
        """What no turn has taken yet, in the order in which it will be."""
        steers = self.current_turn.steers if self.current_turn is not None else ()
        return (*steers, *self.mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Go on with a turn that an earlier process did not end, before anything else."""
        self.approvals = PendingApprovals(open_turn.approvals)
        self.dormant_turn = DormantTurn(open_turn, self.approvals, services=self._services)

    def admit(self, row: InboxRow) -> None:
        """Take an accepted message: to run next, or to act on the turn that is running."""
        self._services.feeds.live_step_replaced(self.session_id)  # what waits has changed
        turn = self.running_turn
        queued = row if turn is None else admit_to_turn(turn, row, services=self._services)
        if queued is not None:
            self.mailbox.append(queued)
        if turn is None:
            self._services.reactions.track_recovered(row)
            self.approvals.wake()

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """End the open turn for good; False: nothing is running.

        `ends` and `deliveries` are the command's own, and commit together with the turn's. `by`:
        who wants it, where no command is among them.
        """
        if self.dormant_turn is not None:
            return self.dormant_turn.stop(ends, deliveries, by=by)
        turn = self.running_turn
        if turn is None:
            return False
        at = self._services.clock.now()
        turn.end(end_stopped(turn, ends=ends, deliveries=deliveries, by=by, at=at))
        turn.cancel()
        return True

    def drop_waiting_messages(self) -> list[InboxRow]:
        """Forget the messages that no turn has begun with. To end them is the caller's: one that
        ended while it was still here could never begin, nor anything behind it."""
        steers = self.current_turn.steers if self.current_turn is not None else deque[InboxRow]()
        waiting = [*steers, *self.mailbox.take_all()]
        steers.clear()
        return waiting

    def set_state(self, state: LaneState) -> None:
        """Whoever looks at the session, or waits for it while the gateway stops, is told."""
        self.state = lane_transition(self.state, state)
        self._services.feeds.session_changed(self.session_id)
        if self.on_change is not None:
            self.on_change()
