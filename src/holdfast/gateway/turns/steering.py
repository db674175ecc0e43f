"""Messages that a person adds to a running turn, until the model has seen them."""

import asyncio
from collections import deque
from collections.abc import Awaitable

from holdfast.agent.agent import Agent
from holdfast.core.ids import InboxId
from holdfast.core.messages.admission import STEERED_NOTICE
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import InboxRow, InboxState
from holdfast.core.messages.transcript import UserMessage
from holdfast.gateway.durable_writes import succeeded
from holdfast.gateway.services import Services
from holdfast.gateway.turns.transcript_notes import user_message
from holdfast.gateway.turns.turn_log import TurnLog


class SteerQueue(deque[InboxRow]):
    """Those that the turn has not taken, oldest first; and those it has, and no request yet."""

    def __init__(self, log: TurnLog, agent: Agent, *, services: Services, into: InboxId) -> None:
        super().__init__()
        self._log = log
        self._agent = agent
        self._services = services
        self._into = into  # the message whose answer is theirs too
        self._unconfirmed: list[InboxRow] = []

    def take_next(self) -> tuple[UserMessage, Awaitable[None]] | None:
        """The next, on its way to the log. One that the log refuses stands in front again."""
        self._log.check_open()
        if not self:
            return None
        row = self.popleft()
        message = user_message(row)
        durable = self._log.record_steer(row.id, message)
        durable.add_done_callback(lambda done: self._on_written(row, done))
        # Shielded: whether the row has ended is to be heard also where the turn is cancelled.
        return message, asyncio.shield(durable)

    def notify_senders(self) -> None:
        """Who steered hears so now: before this, nobody could say that the model knows."""
        rows, self._unconfirmed = self._unconfirmed, []
        for row in rows:
            self._services.busy_notices.send(
                row, STEERED_NOTICE, agent=self._agent, turn_id=self._log.turn_id
            )

    def _on_written(self, row: InboxRow, done: asyncio.Future[None]) -> None:
        if not succeeded(done):
            self.appendleft(row)  # it is still queued, and runs next
            return
        self._unconfirmed.append(row)
        self._services.reactions.remove(row.id)
        self._services.subscriptions.merge(row.id, into=self._into)
        log = self._log
        merged = MessageEnded(row.id, InboxState.MERGED, "", log.turn_id, log.session_id)
        self._services.feeds.message_ended(merged)
