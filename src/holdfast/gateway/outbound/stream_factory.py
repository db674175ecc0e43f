"""Decides which turns stream their reply or show typing, and how a streamed reply ends."""

import msgspec

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
from holdfast.core.turns.turn import EndTurn
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.outbound.best_effort import TypingIndicator
from holdfast.gateway.outbound.delivery import reply_address
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.outbound.quiet_chats import QuietChats
from holdfast.gateway.outbound.reply_stream import ReplyStream, ToolProgress
from holdfast.gateway.outbound.sender import split_for_platform
from holdfast.gateway.redaction import Redaction

_CUT_TEXT = "({reason})"


class StreamFactory:
    """Creates the reply streams and typing indicators of turns; keeps none of them."""

    def __init__(
        self,
        live_settings: LiveSettings,
        platforms: PlatformRegistry,
        outbox: OutboxWorker,
        *,
        clock: Clock,
        new_id: IdFactory,
        redact: Redaction,
        quiet_chats: QuietChats,
    ) -> None:
        self._live_settings = live_settings
        self._quiet_chats = quiet_chats
        self._platforms = platforms
        self._outbox = outbox
        self._clock = clock
        self._new_id = new_id
        self._redact = redact

    def stream_for(
        self,
        row: InboxRow,
        *,
        session_id: SessionId,
        turn_id: TurnId,
        started: StartedDelivery | None,
    ) -> ReplyStream | None:
        """The stream of the answer to `row`; None if the answer is sent when it is complete. A
        stream that has begun continues and gets its end, even if nothing more of it is shown."""
        source = row.inbound.source
        can = self._platforms.capabilities_of(source.platform, source.account)
        account = self._live_settings.current.account(source.platform, source.account)
        enabled = account is None or account.stream
        shows = can.edit and enabled and not self._quiet_chats.is_quiet(source)
        # A job may produce no message for the chat, which is known only when its reply is complete.
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
                clock=self._clock,
                tool_progress=self._tool_progress(source)
                if account is None or account.progress
                else None,
                started=started,
            )
        stream.reopen(muted=not shows)
        return stream

    def typing_indicator_for(self, row: InboxRow) -> TypingIndicator | None:
        """The typing indicator; None if the chat does not show that an answer to `row` is being
        written."""
        source = row.inbound.source
        can = self._platforms.capabilities_of(source.platform, source.account)
        if not can.typing or row.inbound.run is not None or self._quiet_chats.is_quiet(source):
            return None
        return TypingIndicator(reply_address(row), show=self._outbox.try_show)

    def with_stream_end(self, end: EndTurn, stream: ReplyStream, row: InboxRow) -> EndTurn:
        """The end of a turn, with the end of its closed stream. If the chat already shows the whole
        final text, the commit that ends the turn ends the delivery, too."""
        ended = with_stream_end(end, stream.as_started, row)
        return msgspec.structs.replace(
            ended, deliveries=tuple(self._ended_if_shown(each, end) for each in ended.deliveries)
        )

    def _ended_if_shown(self, new: NewDelivery, end: EndTurn) -> NewDelivery:
        started, platform = new.started, self._platforms.find(new.address)
        if started is None or platform is None or new.state is not DeliveryState.PENDING:
            return new
        text = self._redact(end.final_text if new.text is None else new.text)
        parts = started.parts
        if (
            len(parts) != 1
            or parts[0].state is not DeliveryState.SENT
            or started.shown_text != text
            or split_for_platform(text, platform) != (text,)
        ):
            return new
        shown = msgspec.structs.replace(parts[0], final=True)
        return msgspec.structs.replace(
            new,
            state=DeliveryState.SENT,
            started=msgspec.structs.replace(started, parts=(shown,)),
        )

    def _tool_progress(self, source: Source) -> ToolProgress:
        return ToolProgress(private=source.chat_type is ChatType.DM)


def with_stream_end(end: EndTurn, started: StartedDelivery | None, row: InboxRow) -> EndTurn:
    """The end of a turn, with the message that it began to show completed: by the answer that the
    turn owes to `row`, or, if it owes none, by the shown text with the reason."""
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
    """The delivery that edits a message whose answer was not finished, so that it shows the
    reason."""
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
        error="" if seen else "its turn ended before any of it was shown",
        started=started,
    )
