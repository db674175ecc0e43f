"""Notices: what a person is told about a message that came while a turn ran, seldom enough."""

import asyncio
import logging

from holdfast.agent.agent import Agent
from holdfast.core.ids import TurnId
from holdfast.core.messages.admission import notice_due
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.accounts.registry import Doors
from holdfast.gateway.outbound.post_commit import Announcer
from holdfast.gateway.outbound.quiet_chats import Quiet
from holdfast.gateway.outbound.replies import Replies, address_of

log = logging.getLogger(__name__)

_KEEPS = 60.0  # seconds; a later one would speak of what is over


class Notices:
    """Keeps nothing: when a session was last told is its agent's to remember."""

    def __init__(
        self,
        doors: Doors,
        replies: Replies,
        *,
        journal: Journal,
        announcer: Announcer,
        clock: Clock,
        quiet: Quiet,
    ) -> None:
        self._doors = doors
        self._replies = replies
        self._journal = journal
        self._announcer = announcer
        self._clock = clock
        self._quiet = quiet

    def tell(self, row: InboxRow, text: str, *, agent: Agent, turn_id: TurnId) -> None:
        """Tell the sender of `row`, unless its session was told something a moment ago, or its
        platform shows by itself what waits."""
        now = self._clock.now()
        if not self._wanted(row) or not notice_due(agent.told_at, now=now):
            return
        agent.told_at = now
        notice = self._replies.notice(
            row, text, session_id=agent.session_id, turn_id=turn_id, expires_at=now + _KEEPS
        )
        writing = asyncio.ensure_future(self._journal.add_deliveries((notice,), at=now))
        writing.add_done_callback(lambda done: self._kept(notice, done))

    def _wanted(self, row: InboxRow) -> bool:
        door = self._doors.find(address_of(row))
        if door is None or self._quiet.at(row.inbound.source):
            return False
        return door.capabilities.busy_notices and not door.capabilities.fetchable

    def _kept(self, notice: NewDelivery, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            log.warning("A notice was not kept: %s", error, extra={"action": "notice_failed"})
            return
        self._announcer.messages((), (notice,))
