"""Decides what an incoming message does to a lane.

`Mailbox` decides which messages form one turn. `Admission` decides whether a message interrupts the
running turn, steers it or waits.
"""

import asyncio
import logging
from collections import deque

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.messages.admission import (
    BusyDecision,
    RunningTurn,
    admit,
    busy_notice,
    merge_window,
    should_merge,
)
from holdfast.core.messages.inbox import BusyMode, InboxRow
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import RecordBusyDecision
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.outbound.reactions import WaitingReactions
from holdfast.gateway.subagents import Subagents
from holdfast.gateway.turns.busy_notices import SendBusyNotice
from holdfast.gateway.turns.turn import Turn

log = logging.getLogger(__name__)


class Mailbox(deque[InboxRow]):
    """The messages of a lane that no turn has taken yet, in the order in which they will be
    answered."""

    def __init__(self, platforms: PlatformRegistry) -> None:
        super().__init__()
        self._platforms = platforms
        self._arrived = asyncio.Event()

    def append(self, row: InboxRow) -> None:
        super().append(row)
        self._arrived.set()

    def take_next(self) -> list[InboxRow]:
        """Remove and return the first message, with the following ones that belong to the same
        turn."""
        return [self.popleft() for _ in range(self._length_of_first())]

    def take_all(self) -> list[InboxRow]:
        """Remove and return all messages."""
        rows = list(self)
        self.clear()
        return rows

    async def wait_until_complete(self) -> None:
        """Return once the first message is complete. An ordinary message is complete at once. If it
        is a part of an album or of a split paste, wait for the other parts; each part that arrives
        restarts the wait."""
        while wait := self._settle_time_left():
            self._arrived.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._arrived.wait()
            except TimeoutError:
                return

    def _settle_time_left(self) -> float:
        """Seconds to wait for more parts of the first message; 0 if another message follows it."""
        if not self or self._length_of_first() < len(self):
            return 0.0
        last = self[-1]
        return merge_window(last.inbound, capabilities=self._capabilities(last))

    def _length_of_first(self) -> int:
        parts = 1
        while parts < len(self) and self._belong_together(self[parts - 1], self[parts]):
            parts += 1
        return parts

    def _belong_together(self, one: InboxRow, other: InboxRow) -> bool:
        return should_merge(one, other, capabilities=self._capabilities(one))

    def _capabilities(self, row: InboxRow) -> Capabilities:
        return self._platforms.capabilities(reply_address(row))


class Admission:
    """Decides what a message does to a running turn, and applies it. Owns nothing: the decision is
    stored in the row of the message, and an earlier decision is kept."""

    def __init__(
        self,
        writes: StoreWriter,
        live_settings: LiveSettings,
        *,
        platforms: PlatformRegistry,
        subagents: Subagents,
        subscriptions: MessageSubscriptions,
        reactions: WaitingReactions,
        send_busy_notice: SendBusyNotice,
    ) -> None:
        self.reactions = reactions
        self._writes = writes
        self._live_settings = live_settings
        self._platforms = platforms
        self._subagents = subagents
        self._subscriptions = subscriptions
        self._send_busy_notice = send_busy_notice

    def new_mailbox(self) -> Mailbox:
        return Mailbox(self._platforms)

    def admit(self, turn: Turn, row: InboxRow) -> InboxRow | None:
        """Apply a message to the running turn, now. Returns the row if the message runs next, None
        if the turn has it as a steer."""
        decided, decision = row.decision is not None, self._decide(turn, row)
        row = self._with_decision(row, decision, session_id=turn.session_id)
        if decision.mode is BusyMode.INTERRUPT:
            turn.end_interrupted(by=row.id)
            self._subscriptions.merge(turn.rows[-1].id, into=row.id)
        else:
            self.reactions.add(row, maybe_set=decided)
        if decision.mode is BusyMode.STEER:
            turn.context.steers.append(row)
        if (text := busy_notice(decision)) and not row.inbound.note:
            agent = turn.context.agent
            self._send_busy_notice(row, text, agent=agent, turn_id=turn.turn_id)
        return None if decision.mode is BusyMode.STEER else row

    def interrupts(self, turn: Turn, row: InboxRow) -> bool:
        """Whether the message will end the waiting turn once that continues."""
        in_time = row.accepted_at >= turn.started_at
        return in_time and self._decide(turn, row).mode is BusyMode.INTERRUPT

    def _decide(self, turn: Turn, row: InboxRow) -> BusyDecision:
        last = turn.rows[-1]
        running = RunningTurn(
            route=last.route,
            principal=last.principal,
            subagents=self._subagents.awaited_count(turn.session_id),
            compacting=turn.compacting,
        )
        configured = self._live_settings.busy_mode(row.inbound.source)
        return admit(row, running=running, configured=configured)

    def _with_decision(
        self, row: InboxRow, decision: BusyDecision, *, session_id: SessionId
    ) -> InboxRow:
        """The row with its decision, whose write is queued."""
        if row.decision is not None:
            return row
        # A failed write is logged and loses nothing: the row is durable, and a restart decides
        # again.
        self._writes.write(
            RecordBusyDecision(inbox_id=row.id, session_id=session_id, decision=decision.mode)
        )
        return msgspec.structs.replace(row, decision=decision.mode)
