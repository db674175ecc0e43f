"""What people see of a turn while an agent runs it: its streamed reply, its live view, its
trace."""

from collections.abc import Sequence

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.events import TextStreamed, ToolStarted, TurnEvent
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import StartedDelivery
from holdfast.core.ports.runtime import Clock
from holdfast.core.turns.turn import EndTurn, OpenTurn
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.live.live_step import LiveStep, StreamRedactor
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.outbound.best_effort import TypingIndicator
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.outbound.stream_factory import StreamFactory
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer, TurnTrace


class TurnOutput:
    """Publishes the redacted events of a running turn to the requests that wait for its message, to
    the readers of its session and to the chat. Owns the live step, the streamed reply and the
    trace. Nothing here needs the disk."""

    def __init__(
        self,
        record: OpenTurn,
        *,
        resumed: bool,
        streams: StreamFactory,
        feeds: SessionFeeds,
        subscriptions: MessageSubscriptions,
        redact: Redaction,
        clock: Clock,
        tracer: MessageTracer | None,
    ) -> None:
        self.redact = redact
        self.live = LiveStep(now=clock.now)
        self.first_text_at: float | None = None
        self._session_id: SessionId = record.turn.session_id
        self._turn_id: TurnId = record.turn.id
        self._rows: Sequence[InboxRow] = record.rows
        self._inbox_id = record.rows[-1].id  # the message whose subscribers get the events
        self._streams = streams
        self._feeds = feeds
        self._subscriptions = subscriptions
        self._redactor = StreamRedactor(redact)
        self._clock = clock
        # None: the chat gets the reply when it is complete.
        self.stream: ReplyStream | None = streams.stream_for(
            record.rows[-1],
            session_id=self._session_id,
            turn_id=self._turn_id,
            started=record.stream,
        )
        self.trace: TurnTrace | None = None  # None: it is not traced
        if tracer is not None:
            if not resumed:
                tracer.record_wait(record.rows, until=record.turn.started_at)
            self.trace = TurnTrace(
                tracer,
                record.rows,
                session_id=self._session_id,
                turn_id=self._turn_id,
                resumed=resumed and not record.owned_by_this_process,
            )

    def publish(self, event: TurnEvent) -> None:
        for shown in self._redactor.redact_event(event):
            if self.first_text_at is None and isinstance(shown, TextStreamed):
                self.first_text_at = self._clock.now()
            self._subscriptions.publish(self._inbox_id, shown)
            if self.stream is not None:
                self.stream.update(shown)
            if self.live.add(shown):
                self._feeds.publish(self._session_id, shown)
            elif isinstance(shown, ToolStarted):
                self._feeds.live_step_replaced(self._session_id)

    def clear(self) -> None:
        """Clear the live view: the turn is over, and what belongs to it is stored or discarded."""
        self.live.clear()

    def typing_indicator(self) -> TypingIndicator | None:
        """The typing indicator of the chat; None if the chat does not show that an answer is being
        written."""
        return self._streams.typing_indicator_for(self._rows[-1])

    def stop_showing(self) -> None:
        """Show the chat nothing more from this process, except the end of what it has seen."""
        if self.stream is not None:
            self.stream.close()

    def with_stream_end(self, end: EndTurn) -> EndTurn:
        """The end of the turn, with the end of the part of its reply that the chat has seen."""
        if self.stream is None:
            return end
        self.stream.close()
        return self._streams.with_stream_end(end, self.stream, self._rows[-1])

    @property
    def started_stream(self) -> StartedDelivery | None:
        """The part of the reply that the chat has seen."""
        return None if self.stream is None else self.stream.as_started

    def trace_left(self, how: str) -> None:
        """Close the trace of a turn that does not end in this process."""
        if self.trace is not None:
            self.trace.turn_left(how)
