"""A lane: the one owner of a live session. It holds what is said to it, and the turn it is at."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.message import NoteMessage
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.sessions.reset import Opening
from holdfast.core.turns.turn import LaneState, OpenTurn, move
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.closing_write import ClosingWrite
from holdfast.gateway.services import House
from holdfast.gateway.turns.admitting import act_on
from holdfast.gateway.turns.barrier import Barrier
from holdfast.gateway.turns.dormant_turn import Aside
from holdfast.gateway.turns.endings import stopped
from holdfast.gateway.turns.mailbox import Mailbox
from holdfast.gateway.turns.turn import Turn


class Lane:
    """Owns one session's mailbox and the one turn that it is at: running, or set aside.

    `Course` runs its turns, one at a time, and alone sets and drops the one that is present.
    `admit` and `stop` are plain functions: what they decide is decided, and on its way to the log,
    before anything else can happen.
    """

    def __init__(self, session_id: SessionId, *, house: House) -> None:
        self.session_id = session_id
        self.state = LaneState.IDLE
        self.routes: set[SessionKey] = set()  # those that brought it work
        self.task: asyncio.Task[None] | None = None  # what runs it
        self.barrier: Barrier | None = None  # put down by who must have the session to themselves
        self.opening: Opening | None = None  # why it is fresh, until its people were told
        self.note_owed: NoteMessage | None = None  # of a cut, until a turn was told of it
        self.approvals = TurnApprovals()  # what the present turn has asked people for
        self.held = False  # the gateway stops: no turn begins here any more
        self.stirred: Callable[[], None] | None = None  # told of each change while it stops
        self.mailbox = Mailbox(house.doors)
        self.aside: Aside | None = None  # the turn that is open and that nobody runs
        self.present: Turn | None = None  # the turn that has an agent, until its end is durable
        self.closing: ClosingWrite | None = None  # the end of its turn, until that is durable
        self._house = house

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
        turn = self.present
        running = 0 if turn is None else len(turn.rows) + len(turn.steers)
        waiting = 0 if turn or self.aside is None else len(self.aside.rows)
        return running + waiting + len(self.mailbox)

    @property
    def turn(self) -> Turn | None:
        """The running turn; None: there is none, or it has ended and is on its way to the log."""
        return None if self.present is None or self.present.closed else self.present

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of the turn that is open."""
        if self.aside is not None:
            return self.aside.answering
        return None if self.turn is None else self.turn.rows[-1].id

    @property
    def open_turn(self) -> TurnId | None:
        """The one that is open, whether or not somebody runs it."""
        if self.aside is not None:
            return self.aside.open_turn.turn.id
        return None if self.present is None else self.present.turn_id

    @property
    def set_aside(self) -> OpenTurn | None:
        """The open turn that nobody runs at the moment."""
        return None if self.aside is None else self.aside.open_turn

    @property
    def open_since(self) -> float | None:
        """When the turn began that is open here; None: there is none."""
        if self.aside is not None:
            return self.aside.open_turn.turn.started_at
        turn = self.present
        return None if turn is None or turn.closed else turn.started_at

    @property
    def queued_since(self) -> float | None:
        """Since when the message waits that is next; None: none does."""
        return self.mailbox[0].accepted_at if self.mailbox else None

    @property
    def waiting(self) -> Sequence[InboxRow]:
        """What no turn has taken yet, in the order in which it will be."""
        steers = self.present.steers if self.present is not None else ()
        return (*steers, *self.mailbox)

    def resume(self, open_turn: OpenTurn) -> None:
        """Go on with a turn that an earlier process did not end, before anything else."""
        self.approvals = TurnApprovals(open_turn.approvals)
        self.aside = Aside(open_turn, self.approvals, house=self._house)

    def admit(self, row: InboxRow) -> None:
        """Take an accepted message: to run next, or to act on the turn that is running."""
        self._house.feeds.restarted(self.session_id)  # what waits has changed
        turn = self.turn
        queued = row if turn is None else act_on(turn, row, house=self._house)
        if queued is not None:
            self.mailbox.append(queued)
        if turn is None:
            self._house.signs.found(row)
            self.approvals.wake()

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """End the open turn for good; False: nothing is running.

        `ends` and `deliveries` are the command's own, and commit together with the turn's. `by`:
        who wants it, where no command is among them.
        """
        if self.aside is not None:
            return self.aside.stop(ends, deliveries, by=by)
        turn = self.turn
        if turn is None:
            return False
        at = self._house.clock.now()
        turn.end(stopped(turn, ends=ends, deliveries=deliveries, by=by, at=at))
        turn.cancel()
        return True

    def drop_waiting(self) -> list[InboxRow]:
        """Forget the messages that no turn has begun with. To end them is the caller's: one that
        ended while it was still here could never begin, nor anything behind it."""
        steers = self.present.steers if self.present is not None else deque[InboxRow]()
        waiting = [*steers, *self.mailbox.empty()]
        steers.clear()
        return waiting

    def become(self, state: LaneState) -> None:
        """Whoever looks at the session, or waits for it while the gateway stops, is told."""
        self.state = move(self.state, state)
        self._house.feeds.changed(self.session_id)
        if self.stirred is not None:
            self.stirred()
