"""Tells the sender of a message that arrived while a turn ran what happens to it, rate-limited."""

import logging

from holdfast.agent.agent import Agent
from holdfast.core.ids import TurnId
from holdfast.core.messages.admission import is_notice_due
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import AddDeliveries
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.outbound.delivery import DeliveryFactory, reply_address
from holdfast.gateway.outbound.quiet_chats import QuietChats

log = logging.getLogger(__name__)

_EXPIRES_AFTER = 60.0  # seconds; a later one would speak of what is over


class BusyNotices:
    """Keeps nothing: when a session was last told is its agent's to remember."""

    def __init__(
        self,
        platforms: PlatformRegistry,
        delivery_factory: DeliveryFactory,
        *,
        writes: StoreWriter,
        clock: Clock,
        quiet_chats: QuietChats,
    ) -> None:
        self._platforms = platforms
        self._delivery_factory = delivery_factory
        self._writes = writes
        self._clock = clock
        self._quiet_chats = quiet_chats

    def send(self, row: InboxRow, text: str, *, agent: Agent, turn_id: TurnId) -> None:
        """Tell the sender of `row`, unless its session was told something a moment ago, or its
        platform shows by itself what waits."""
        now = self._clock.now()
        if not self._gets_notice(row) or not is_notice_due(agent.busy_notice_at, now=now):
            return
        agent.busy_notice_at = now
        notice = self._delivery_factory.notice(
            row, text, session_id=agent.session_id, turn_id=turn_id, expires_at=now + _EXPIRES_AFTER
        )
        self._writes.write(AddDeliveries(deliveries=(notice,), at=now))

    def _gets_notice(self, row: InboxRow) -> bool:
        platform = self._platforms.find(reply_address(row))
        if platform is None or self._quiet_chats.is_quiet(row.inbound.source):
            return False
        return platform.capabilities.busy_notices and not platform.capabilities.fetchable
