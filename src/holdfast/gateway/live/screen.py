"""The screen of a turn: what those see of it who look on while it runs."""

from holdfast.core.ids import InboxId, SessionId
from holdfast.core.messages.events import Event, TextStreamed, ToolBegan
from holdfast.gateway.live.live import LiveStep
from holdfast.gateway.live.showing import Showing
from holdfast.gateway.outbound.reply_stream import ReplyStream
from holdfast.gateway.services import House


class Screen:
    """Owns the present step, as far as the log does not have it. Nothing here needs the disk."""

    def __init__(
        self,
        session_id: SessionId,
        inbox_id: InboxId,
        *,
        house: House,
        stream: ReplyStream | None = None,
    ) -> None:
        self.live = LiveStep(now=house.clock.now)
        self.first_at: float | None = None  # when the first word was there
        self._session_id = session_id
        self._inbox_id = inbox_id  # the message that its watchers wait for
        self._house = house
        self._stream = stream  # None: its chat sees the reply when it is whole
        self._showing = Showing(house.redact)

    def show(self, event: Event) -> None:
        for shown in self._showing.of(event):
            if self.first_at is None and isinstance(shown, TextStreamed):
                self.first_at = self._house.clock.now()
            self._house.watchers.publish(self._inbox_id, shown)
            if self._stream is not None:
                self._stream.take(shown)
            if self.live.take(shown):
                self._house.feeds.publish(self._session_id, shown)
            elif isinstance(shown, ToolBegan):
                self._house.feeds.restarted(self._session_id)

    def clear(self) -> None:
        """The turn is over: what there is of it is in the log, or never will be."""
        self.live = LiveStep(now=self._house.clock.now)
