"""Decides which turns stream their reply or show typing, and how a streamed reply ends."""

import msgspec

from holdfast.core.crash_points import CrashHook
from holdfast.core.ids import DeliveryId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import (
    Address,
    DeliveryKind,
    DeliveryState,
    NewDelivery,
    StartedDelivery,
)
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import StoreWriter
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.outbound.best_effort import TypingIndicator
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reply_stream import ReplyStream, ToolProgress

_CUT_TEXT = "({reason})"


class StreamFactory:
    """Makes the reply streams and typing indicators of turns; keeps none of them."""

    def __init__(
        self,
        live_settings: LiveSettings,
        platforms: PlatformRegistry,
        outbox: OutboxWorker,
        *,
        writes: StoreWriter,
        clock: Clock,
        new_id: IdFactory,
        crash: CrashHook,
        quiet_chats: QuietChats,
    ) -> None:
        self._live_settings = live_settings
        self._quiet_chats = quiet_chats
        self._platforms = platforms
        self._outbox = outbox
        self._writes = writes
        self._clock = clock
        self._new_id = new_id
        self._crash = crash

    def stream_for(
        self,
        row: InboxRow,
        *,
        session_id: SessionId,
        turn_id: TurnId,
        started: StartedDelivery | None,
    ) -> ReplyStream | None:
        """None: the answer to `row` is sent when it is whole. One that was begun goes on, and ends
        as it must, also where nothing more is shown of it."""
        source = row.inbound.source
        can = self._platforms.capabilities_of(source.platform, source.account)
        account = self._live_settings.current.account(source.platform, source.account)
        enabled = account is None or account.stream
        shows = can.edit and enabled and not self._quiet_chats.is_quiet(source)
        # What a job says may be meant for nobody, which is known when all of it is said.
        if started is None and (not shows or row.inbound.run is not None):
            return None
        stream = self._outbox.stream(started.id) if started else None
        if stream is None:
            new = NewDelivery(
                id=started.id if started else DeliveryId(self._new_id("dlv")),
                address=reply_address(row),
                kind=DeliveryKind.REPLY,
                text=None,
                session_id=session_id,
                turn_id=turn_id,
                state=DeliveryState.STREAMING,
            )
            stream = ReplyStream(
                new,
                interval=can.edit_interval_in(source.chat_type),
                show=self._outbox.try_show,
                writes=self._writes,
                clock=self._clock,
                crash=self._crash,
                tool_progress=self._tool_progress(source)
                if account is None or account.progress
                else None,
                started=started,
            )
        stream.reopen(muted=not shows)
        return stream

    def typing_indicator_for(self, row: InboxRow) -> TypingIndicator | None:
        """None: nobody there could see that an answer to `row` is being written."""
        source = row.inbound.source
        can = self._platforms.capabilities_of(source.platform, source.account)
        if not can.typing or row.inbound.run is not None or self._quiet_chats.is_quiet(source):
            return None
        return TypingIndicator(reply_address(row), show=self._outbox.try_show)

    def _tool_progress(self, source: Source) -> ToolProgress:
        return ToolProgress(private=source.chat_type is ChatType.DM)


def with_stream_end(end: EndTurn, started: StartedDelivery | None, row: InboxRow) -> EndTurn:
    """The end of a turn, with what it began to show brought to its last words: the answer that the
    turn owes to `row`, or, where it owes none, what was shown with the reason."""
    if started is None:
        return end
    address = reply_address(row)
    deliveries = list(end.deliveries)
    for number, each in enumerate(deliveries):
        if each.kind is DeliveryKind.REPLY and each.address == address:
            deliveries[number] = msgspec.structs.replace(each, id=started.id, started=started)
            break
    else:
        deliveries.insert(0, stream_leftover(end, started, address))
    return msgspec.structs.replace(end, deliveries=tuple(deliveries))


def stream_leftover(end: EndTurn, started: StartedDelivery, address: Address) -> NewDelivery:
    """What stands in the chat and will never be an answer says so, in its own place."""
    reason = _CUT_TEXT.format(reason=end.reason)
    seen = bool(started.parts)
    return NewDelivery(
        id=started.id,
        address=address,
        kind=DeliveryKind.NOTICE,
        text=f"{started.reply_text}\n\n{reason}" if started.reply_text else reason,
        session_id=end.session_id,
        turn_id=end.turn_id,
        state=DeliveryState.PENDING if seen else DeliveryState.FAILED,
        error="" if seen else "its turn ended before anything of it was shown",
        started=started,
    )
