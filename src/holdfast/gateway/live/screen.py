"""The screen of a turn: what those see of it who look on while it runs."""

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import TextStreamed, ToolStarted, TurnEvent
from holdfast.gateway.live.live import LiveStep
from holdfast.gateway.live.showing import StreamRedactor
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.services import Services


class TurnBroadcast:
    """Owns the present step, as far as the log does not have it. Nothing here needs the disk."""

    def __init__(
        self,
        session_id: SessionId,
        inbox_id: InboxId,
        *,
        services: Services,
        stream: ReplyStream | None = None,
    ) -> None:
        self.live = LiveStep(now=services.clock.now)
        self.first_text_at: float | None = None  # when the first word was there
        self._session_id = session_id
        self._inbox_id = inbox_id  # the message that its watchers wait for
        self._services = services
        self._stream = stream  # None: its chat sees the reply when it is whole
        self._redactor = StreamRedactor(services.redact)

    def publish(self, event: TurnEvent) -> None:
        for shown in self._redactor.redact_event(event):
            if self.first_text_at is None and isinstance(shown, TextStreamed):
                self.first_text_at = self._services.clock.now()
            self._services.subscriptions.publish(self._inbox_id, shown)
            if self._stream is not None:
                self._stream.update(shown)
            if self.live.add(shown):
                self._services.feeds.publish(self._session_id, shown)
            elif isinstance(shown, ToolStarted):
                self._services.feeds.live_step_replaced(self._session_id)

    def clear(self) -> None:
        """The turn is over: what there is of it is in the log, or never will be."""
        self.live = LiveStep(now=self._services.clock.now)
