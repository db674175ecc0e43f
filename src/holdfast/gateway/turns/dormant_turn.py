"""An open turn without an agent: it waits for a person, or an earlier process left it."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.admission import RunningTurn, admit
from holdfast.core.messages.inbox import BusyMode, InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.ports.store_queries import GetTranscript
from holdfast.core.turns.model import FallbackUsed
from holdfast.core.turns.stop import LeftTurn, TurnExitReason
from holdfast.core.turns.turn import EndTurn, OpenTurn
from holdfast.gateway.approvals.pending import PendingApprovals, wait_for_decision
from holdfast.gateway.services import Services
from holdfast.gateway.turns.endings import end_abandoned, end_stopped_dormant, write_end
from holdfast.gateway.turns.turn_log import write_exit


class DormantTurn:
    """Owns what is asked of a turn while nobody runs it: one that an earlier process left, or one
    that waits for a person. A turn that waits holds no agent, and needs none to be ended."""

    def __init__(
        self,
        open_turn: OpenTurn,
        approvals: PendingApprovals,
        *,
        services: Services,
        fallback: FallbackUsed | None = None,
    ) -> None:
        self.open_turn = open_turn
        self.fallback = fallback  # another model than the first has done a part of it
        self.stopped_by = ""  # who stopped it, where that is nobody's command
        self.ends: list[InboxEnd] = []  # of those who stopped it, with what they are told
        self.deliveries: list[NewDelivery] = []
        self.stopped = False
        self.resuming = False  # what its row says of how it was left is on its way to be taken back
        self._approvals = approvals
        self._services = services
        self._end: EndTurn | None = None

    @property
    def session_id(self) -> SessionId:
        return self.open_turn.turn.session_id

    @property
    def rows(self) -> Sequence[InboxRow]:
        return self.open_turn.rows

    @property
    def answering(self) -> InboxId | None:
        """The message whose end is the end of this turn; None: that is on its way to the log."""
        return None if self._end else self.rows[-1].id

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """It is not gone on with; False: it has ended already, in another way or by another."""
        if self._end is not None:
            return False
        self.stopped = True
        self.stopped_by = self.stopped_by or by
        self.ends.extend(ends)
        self.deliveries.extend(deliveries)
        self._approvals.withdraw(at=self._services.clock.now())
        self._approvals.wake()
        return True

    def leave(self) -> asyncio.Future[None] | None:
        """The gateway stops. One that waits for a person stands at a step boundary, and says so:
        the answer may come to the log before the turn goes on. So does one that has not done
        anything since it was told to go on. None: there is nothing to say."""
        resumable = self.open_turn.is_waiting or self.resuming
        if self.stopped or self._end is not None or not resumable:
            return None
        turn_id = self.open_turn.turn.id
        left = LeftTurn(
            session_id=self.session_id, turn_id=turn_id, exit_reason=TurnExitReason.PARKED
        )
        return write_exit(self._services, left)

    async def wait_until_woken(self, waiting: Collection[InboxRow]) -> None:
        """Returns when there is an answer, or somebody has ended it. `waiting` is what came, and
        comes, while nobody runs it."""
        services = self._services

        def called() -> bool:
            interrupted = any(self._interrupts(row) for row in waiting)
            if interrupted:
                self._approvals.withdraw(at=services.clock.now())
            return interrupted or self.stopped

        await wait_for_decision(
            self._approvals, writes=services.store, clock=services.clock, interrupted=called
        )
        for session_id in {approval.asked_in for approval in self._approvals.all}:
            services.feeds.session_changed(session_id)  # people see a subagent's in another session

    async def end(self, why: str = "") -> Callable[[], Awaitable[None]]:
        """End it without an agent: as stopped, or as failed for this reason. What is returned
        writes that; raises `StoreError` where nothing could be decided yet."""
        services = self._services
        records = await services.store.read(GetTranscript(session_id=self.session_id))
        messages, at = [record.message for record in records], services.clock.now()
        if self.stopped:
            self._end = end_stopped_dormant(
                self.open_turn,
                messages=messages,
                ends=self.ends,
                deliveries=self.deliveries,
                by=self.stopped_by,
                at=at,
            )
        else:
            self._end = end_abandoned(
                self.open_turn,
                why,
                messages=messages,
                delivery_factory=services.delivery_factory,
                at=at,
            )
        self._approvals.withdraw(at=at)
        services.cache.drop(self.session_id)  # its buffer has no result for the calls that were cut
        return partial(write_end, services, self._end)

    def _interrupts(self, row: InboxRow) -> bool:
        """Whether it will end the turn once that has gone on."""
        last = self.rows[-1]
        awaited = self._services.subagents.awaited_count(self.session_id)
        running = RunningTurn(route=last.route, principal=last.principal, subagents=awaited)
        configured = self._services.busy_mode(row.inbound.source)
        decision = admit(row, running=running, configured=configured)
        in_time = row.accepted_at >= self.open_turn.turn.started_at
        return in_time and decision.mode is BusyMode.INTERRUPT
