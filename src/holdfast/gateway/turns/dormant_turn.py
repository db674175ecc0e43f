"""A turn set aside: open in the log, with no agent, until it is gone on with or ended."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.admission import Running, admit
from holdfast.core.messages.inbox import BusyMode, InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.turns.model import FellBack
from holdfast.core.turns.stop import Left, LeftAs
from holdfast.core.turns.turn import EndTurn, OpenTurn
from holdfast.gateway.approvals.pending import TurnApprovals, until_woken
from holdfast.gateway.services import House
from holdfast.gateway.turns.endings import abandoned, stopped_aside
from holdfast.gateway.turns.finishing import write_end
from holdfast.gateway.turns.turn_log import leave


class Aside:
    """Owns what is asked of a turn while nobody runs it: one that an earlier process left, or one
    that waits for a person. A turn that waits holds no agent, and needs none to be ended."""

    def __init__(
        self,
        open_turn: OpenTurn,
        approvals: TurnApprovals,
        *,
        house: House,
        fallen: FellBack | None = None,
    ) -> None:
        self.open_turn = open_turn
        self.fallen = fallen  # another model than the first has done a part of it
        self.by = ""  # who stopped it, where that is nobody's command
        self.ends: list[InboxEnd] = []  # of those who stopped it, with what they are told
        self.deliveries: list[NewDelivery] = []
        self.stopped = False
        self.going_on = False  # what its row says of how it was left is on its way to be taken back
        self._approvals = approvals
        self._house = house
        self._ending: EndTurn | None = None

    @property
    def session_id(self) -> SessionId:
        return self.open_turn.turn.session_id

    @property
    def rows(self) -> Sequence[InboxRow]:
        return self.open_turn.rows

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of this turn; None: that is on its way to the log."""
        return None if self._ending else self.rows[-1].id

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """It is not gone on with; False: it has ended already, in another way or by another."""
        if self._ending is not None:
            return False
        self.stopped = True
        self.by = self.by or by
        self.ends.extend(ends)
        self.deliveries.extend(deliveries)
        self._approvals.withdraw(at=self._house.clock.now())
        self._approvals.wake()
        return True

    def leave(self) -> asyncio.Future[None] | None:
        """The gateway stops. One that waits for a person stands at a step boundary, and says so:
        the answer may come to the log before the turn goes on. So does one that has not done
        anything since it was told to go on. None: there is nothing to say."""
        stands = self.open_turn.waits or self.going_on
        if self.stopped or self._ending is not None or not stands:
            return None
        turn_id = self.open_turn.turn.id
        left = Left(session_id=self.session_id, turn_id=turn_id, how=LeftAs.PARKED)
        return leave(self._house, left)

    async def until_woken(self, waiting: Collection[InboxRow]) -> None:
        """Returns when there is an answer, or somebody has ended it. `waiting` is what came, and
        comes, while nobody runs it."""
        house = self._house

        def called() -> bool:
            interrupted = any(self._interrupts(row) for row in waiting)
            if interrupted:
                self._approvals.withdraw(at=house.clock.now())
            return interrupted or self.stopped

        await until_woken(self._approvals, store=house.store, clock=house.clock, called=called)
        for session_id in {approval.asked_in for approval in self._approvals.all}:
            house.feeds.changed(session_id)  # a child's people look at another session

    async def end(self, why: str = "") -> Callable[[], Awaitable[None]]:
        """End it without an agent: as stopped, or as failed for this reason. What is returned
        writes that; raises `StoreError` where nothing could be decided yet."""
        house = self._house
        records = await house.store.transcript(self.session_id)
        messages, at = [record.message for record in records], house.clock.now()
        if self.stopped:
            self._ending = stopped_aside(
                self.open_turn,
                messages=messages,
                ends=self.ends,
                deliveries=self.deliveries,
                by=self.by,
                at=at,
            )
        else:
            self._ending = abandoned(
                self.open_turn, why, messages=messages, replies=house.replies, at=at
            )
        self._approvals.withdraw(at=at)
        house.cache.drop(self.session_id)  # its buffer has no result for the calls that were cut
        return partial(write_end, house, self._ending)

    def _interrupts(self, row: InboxRow) -> bool:
        """Whether it will end the turn once that has gone on."""
        last = self.rows[-1]
        children = self._house.children.running(self.session_id)
        running = Running(route=last.route, principal=last.principal, children=children)
        configured = self._house.busy_mode(row.inbound.source)
        decision = admit(row, running=running, configured=configured)
        in_time = row.accepted_at >= self.open_turn.turn.started_at
        return in_time and decision.mode is BusyMode.INTERRUPT
