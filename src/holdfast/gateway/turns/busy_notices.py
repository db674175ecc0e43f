"""Tells the sender of a message that arrived while a turn ran what happens to it, rate-limited."""

from typing import Protocol

from holdfast.agent.agent import Agent
from holdfast.core.ids import TurnId
from holdfast.core.messages.admission import is_notice_due
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import AddDeliveries
from holdfast.core.text.translation import _, use_catalogue
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.outbound.delivery import DeliveryFactory, reply_address
from holdfast.gateway.outbound.quiet_chats import QuietChats

_EXPIRES_AFTER = 60.0  # seconds; a later notice would describe a turn that is over


class SendBusyNotice(Protocol):
    """`send_busy_notice` with its collaborators bound."""

    def __call__(self, row: InboxRow, text: str, *, agent: Agent, turn_id: TurnId) -> None: ...


def send_busy_notice(
    row: InboxRow,
    text: str,
    *,
    agent: Agent,
    turn_id: TurnId,
    platforms: PlatformRegistry,
    deliveries: DeliveryFactory,
    writes: StoreWriter,
    clock: Clock,
    quiet_chats: QuietChats,
    languages: ChatLanguages,
) -> None:
    """Tell the sender of `row` what happens to the message. Skipped if the session got a notice
    shortly before, or if its platform already shows which messages wait. The agent remembers the
    time of the session's last notice."""
    now = clock.now()
    platform = platforms.find(reply_address(row))
    if platform is None or quiet_chats.is_quiet(row.inbound.source):
        return
    if not platform.capabilities.busy_notices or platform.capabilities.fetchable:
        return
    if not is_notice_due(agent.busy_notice_at, now=now):
        return
    agent.busy_notice_at = now
    with use_catalogue(languages.of_message(row)):
        translated = _(text)
    notice = deliveries.notice(
        row,
        translated,
        session_id=agent.session_id,
        turn_id=turn_id,
        expires_at=now + _EXPIRES_AFTER,
    )
    writes.write(AddDeliveries(deliveries=(notice,), at=now))
