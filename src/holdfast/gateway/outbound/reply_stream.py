"""A reply that is shown in its chat while it is written, always as the same message."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from enum import StrEnum

from holdfast.core.errors import (
    EditRefused,
    InvalidTransition,
    NotConnected,
    SendError,
    SendRejected,
    StoreError,
    Throttled,
)
from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    RetryScheduled,
    StepEnded,
    StreamVoided,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnEvent,
)
from holdfast.core.messages.outbox import DeliveryPart, NewDelivery, StartedDelivery
from holdfast.core.messages.transcript import summarise_arguments
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock
from holdfast.core.text.translation import _n
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.outbound.sender import (
    OutgoingPart,
    Sender,
    editor_of,
    part_after_error,
    recovered_part,
    split_for_platform,
)

log = logging.getLogger(__name__)


_MAX_LINES = 3  # of running tools
_MAX_LINE_LENGTH = 60  # characters of a call's arguments
_FIRST_SHOWN_AFTER = 0.5  # seconds at most; a reply that is complete by then is sent as a whole
# Seconds that a tool runs before a message that shows only the tool is sent.
_TOOLS_SHOWN_AFTER = 2.0


class ToolProgress:
    """The running tools, as a few short lines below the text of a reply. Owns the running calls. A
    group sees the names of the tools but not their arguments, which may be private."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._running: dict[CallId, str] = {}

    def update(self, event: TurnEvent) -> bool:
        """Update from an event. True if a call has begun or ended."""
        if isinstance(event, ToolStarted):
            self._running[event.call_id] = self._line(event)
            return True
        return isinstance(event, ToolEnded) and self._running.pop(event.call_id, "") != ""

    def clear(self) -> None:
        self._running.clear()

    @property
    def lines(self) -> str:
        """The lines to show; "" if no tool runs."""
        lines = list(self._running.values())
        more = len(lines) - _MAX_LINES
        if more > 0:
            lines[_MAX_LINES:] = [_n("▸ … and {n} more", "▸ … and {n} more", more).format(n=more)]
        return "\n".join(lines)

    def _line(self, event: ToolStarted) -> str:
        shown = summarise_arguments(event.arguments).replace("`", "'") if self._private else ""
        if len(shown) > _MAX_LINE_LENGTH:
            shown = f"{shown[:_MAX_LINE_LENGTH]}…"
        # As code, so that nothing in it is taken for markup, a mention or a link by the platform.
        return f"▸ {event.name} `{shown}`" if shown.strip() else f"▸ {event.name}"


class StreamText:
    """The content of a streamed reply: the text of its step, and below it its progress, which is
    the running tools and the announced retry of the model call. Owns the pieces of the current
    step, and the text of the previous one, which is shown until the current step has text. Without
    `tool_progress`, no progress is shown."""

    def __init__(self, *, tool_progress: ToolProgress | None, previous: str = "") -> None:
        self._tool_progress = tool_progress
        self._previous = previous
        self._pieces: list[str] = []
        self._retry = ""  # until the model sends something

    def update(self, event: TurnEvent) -> bool:
        """Update from an event. True if there may be something new to show."""
        if isinstance(event, TextStreamed):
            self._pieces.append(event.text)
            self._retry = ""
            return True
        if isinstance(event, StepEnded):
            self._previous = self.reply_text
        if isinstance(event, StepEnded | StreamVoided):
            self._pieces.clear()
            self._retry = ""
            return False
        if self._tool_progress is None:
            return False
        if isinstance(event, RetryScheduled):
            self._retry = f"↻ {event.describe()}"
            return True
        if self._retry and isinstance(event, ReasoningStreamed):
            self._retry = ""
            return True
        return self._tool_progress.update(event)

    def reset(self) -> None:
        """Reset for a turn that begins: no tool runs, and the current step has no text."""
        self._pieces.clear()
        self._retry = ""
        if self._tool_progress is not None:
            self._tool_progress.clear()

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def reply_text(self) -> str:
        text = "".join(self._pieces)
        return text if text.strip() else self._previous

    @property
    def text(self) -> str:
        """Reply and progress; "" if there is nothing to show."""
        reply, progress = self.reply_text, self._progress_lines
        if not reply.strip():
            return progress
        return f"{reply}\n\n{progress}" if progress else reply

    def first_message(self, platform: Platform) -> tuple[str, str, bool]:
        """The first message, how much of it is reply text, and whether the reply needs a second
        message. If reply and progress do not both fit, the progress is left out."""
        reply, *more = split_for_platform(self.reply_text, platform)
        if more or not self._progress_lines:
            return reply, reply, bool(more)
        whole = split_for_platform(self.text, platform)
        return whole[0] if len(whole) == 1 else reply, reply, False

    @property
    def _progress_lines(self) -> str:
        tools = "" if self._tool_progress is None else self._tool_progress.lines
        return "\n".join(lines for lines in (tools, self._retry) if lines)


class StreamState(StrEnum):
    """What a reply stream does with a new text. `STREAM_TRANSITIONS` lists the legal changes."""

    OPEN = "open"  # shows new text when its timer fires
    FULL = "full"  # its first message is full, so it shows no more text of this step
    CLOSED = "closed"  # its turn has ended, waits for a person, or continues in another process
    MUTED = "muted"  # shows nothing more: the delivery sends the complete text


STREAM_TRANSITIONS: Mapping[StreamState, frozenset[StreamState]] = {
    StreamState.OPEN: frozenset({StreamState.FULL, StreamState.CLOSED, StreamState.MUTED}),
    StreamState.FULL: frozenset({StreamState.OPEN, StreamState.CLOSED, StreamState.MUTED}),
    StreamState.CLOSED: frozenset({StreamState.OPEN, StreamState.MUTED}),
    StreamState.MUTED: frozenset(),
}


class ReplyStream:
    """Owns when the reply is shown next and what is known of the message that shows it: text, and
    progress, which is never part of the final reply.

    Only the first message of a long reply is shown while it is written: whether a second one is
    needed is known only at the end, and a sent message cannot be withdrawn. Nothing waits for what
    is shown here, and all of it may be dropped; the delivery sends the reply itself.
    """

    def __init__(
        self,
        new: NewDelivery,
        *,
        interval: float,
        show: Callable[["ReplyStream"], bool],
        clock: Clock,
        tool_progress: ToolProgress | None = None,
        started: StartedDelivery | None = None,
    ) -> None:
        self.id = new.id
        self.address = new.address
        self.state = StreamState.OPEN
        # What is known of its message; None if nothing was sent and the delivery has no row.
        self.part: DeliveryPart | None = None
        if started is not None:
            parts = started.parts or (DeliveryPart(number=1),)
            self.part = recovered_part(parts[0])
        # "" also during a call of the platform, when it is not known what the chat shows.
        self.shown_text = started.shown_text if started else ""
        self._new = new
        self._interval = interval
        self._show = show
        self._clock = clock
        self._shown_reply_text = started.reply_text if started else ""
        self._text = StreamText(tool_progress=tool_progress, previous=self._shown_reply_text)
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0

    @property
    def started(self) -> bool:
        """Whether its row exists, or is being written."""
        return self.part is not None

    @property
    def as_started(self) -> StartedDelivery | None:
        """What another process needs to continue the stream; None if nothing was started."""
        if self.part is None:
            return None
        return StartedDelivery(
            id=self.id,
            parts=(self.part,),
            shown_text=self.shown_text,
            reply_text=self._shown_reply_text,
        )

    @property
    def edit_cooldown(self) -> float:
        """Seconds during which the platform accepts no other edit of the message."""
        return max(0.0, self._next_at - self._clock.monotonic())

    def update(self, event: TurnEvent) -> None:
        """Add an event of the turn, which is already redacted."""
        if self._text.update(event):
            self._schedule()
        elif isinstance(event, StepEnded | StreamVoided) and self.state is StreamState.FULL:
            self._move_to(StreamState.OPEN)

    def reopen(self, *, muted: bool) -> None:
        """Open the stream for a turn that begins or is resumed. A muted stream stays muted."""
        self._text.reset()
        if muted:
            self._mute()
        elif self.state in (StreamState.CLOSED, StreamState.FULL):
            self._move_to(StreamState.OPEN)

    def close(self) -> None:
        """Show nothing more: the turn has ended, or continues in another process."""
        if self.state in (StreamState.OPEN, StreamState.FULL):
            self._move_to(StreamState.CLOSED)

    def _mute(self) -> None:
        if self.state is not StreamState.MUTED:
            self._move_to(StreamState.MUTED)

    def _move_to(self, state: StreamState) -> None:
        if state not in STREAM_TRANSITIONS[self.state]:
            raise InvalidTransition(
                "a reply stream cannot go from {state} to {to}", state=self.state, to=state
            )
        self.state = state
        if state is not StreamState.OPEN:
            self._cancel_timer()

    def _schedule(self) -> None:
        """Schedule new content. There is one timer at a time, and the newest content is shown when
        it fires. A timer is replaced only by an earlier one, because text waits less long than
        tools."""
        if self.state is not StreamState.OPEN:
            return
        wait = self.edit_cooldown
        if not self.started:
            has_text = self._text.has_text
            wait = min(self._interval, _FIRST_SHOWN_AFTER) if has_text else _TOOLS_SHOWN_AFTER
        loop = asyncio.get_running_loop()
        if self._timer is None or loop.time() + wait < self._timer.when():
            self._cancel_timer()
            self._timer = loop.call_later(wait, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        if not self._has_unshown_text:
            return
        if self.started and self.edit_cooldown:  # something was shown since it was set
            self._schedule()
        elif not self._show(self):  # deliveries go first
            self._next_at = self._clock.monotonic() + self._interval
            self._schedule()

    @property
    def _has_unshown_text(self) -> bool:
        return self._text.text not in ("", self.shown_text)

    async def show(self, sender: Sender, platform: Platform, send_gate: SendGate) -> None:
        """Show the newest content, with one attempt. The final delivery corrects any failure."""
        first, reply_text, more = self._text.first_message(platform)
        if first in ("", self.shown_text) or not self._may_show(platform):
            return
        new_row = None if self.started else self._new
        part = self.part = self.part or DeliveryPart(number=1)
        outgoing = OutgoingPart(
            delivery_id=self.id,
            scope=self._new.scope,
            address=self.address,
            text=first,
            new_row=new_row,
        )
        # If the turn ends during this call, the text counts as shown: people may have read it.
        before = self.shown_text, self._shown_reply_text
        self.shown_text, self._shown_reply_text = "", reply_text
        try:
            self.part = await sender.attempt(outgoing, part, platform)
            if part.platform_message_id is None and part.outcome_unknown:
                self._shown_reply_text = ""  # an earlier attempt that arrived may show older text
            else:
                self.shown_text = first
            if more and self.state is StreamState.OPEN:
                self._move_to(StreamState.FULL)
        except SendError as error:
            self.shown_text, self._shown_reply_text = before
            self._on_send_error(error, part, send_gate)
        except StoreError as error:
            self.shown_text, self._shown_reply_text = before
            self.part = None if new_row is not None else part  # as the store has it
            self._mute()
            about = {"action": "reply_stream_failed", "session": self._new.session_id}
            log.warning(
                "Could not record a streamed reply, which is sent when it is complete: %s",
                error,
                extra=about,
            )
        self._next_at = self._clock.monotonic() + self._interval
        if self._has_unshown_text:
            self._schedule()

    def _on_send_error(self, error: SendError, part: DeliveryPart, send_gate: SendGate) -> None:
        sending = part.platform_message_id is None
        if sending:
            self.part = part_after_error(part, error, final=False)
        if isinstance(error, Throttled | NotConnected):
            send_gate.record_blocked(error)
            return
        if sending or isinstance(error, SendRejected):
            self._mute()
        if isinstance(error, EditRefused) or not isinstance(error, SendRejected):
            # The message is gone, or it is unknown what it shows: the last edit is made in any
            # case. A platform that refuses that one, too, gets the text as a new message.
            self.shown_text = self._shown_reply_text = ""

    def _may_show(self, platform: Platform) -> bool:
        """Whether it may be shown now. A message that may have arrived is sent again only when it
        is complete, unless the platform accepts a delivery only once and returns its id."""
        if self.state is not StreamState.OPEN:
            return False
        part, can_resolve = self.part, platform.capabilities.can_resolve_unknown
        unknown = part is not None and part.outcome_unknown and part.platform_message_id is None
        if editor_of(platform) is None or (unknown and not can_resolve):
            self._mute()
            return False
        return True
