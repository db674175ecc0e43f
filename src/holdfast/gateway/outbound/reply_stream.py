"""A reply shown in its chat while it is written, always as the same message."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import CrashHook, CrashPoint
from holdfast.core.errors import NotConnected, SendError, SendRejected, Throttled
from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
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
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import BeginStream
from holdfast.gateway.outbound.rate_limit import SendGate
from holdfast.gateway.outbound.sender import (
    OutgoingPart,
    PartSender,
    editor_of,
    part_after_error,
    recovered_part,
    split_for_platform,
)

log = logging.getLogger(__name__)


_MAX_LINES = 3  # of running tools
_MAX_LINE_LENGTH = 60  # characters of a call's arguments
_FIRST_SHOWN_AFTER = 0.5  # seconds at most: a reply that is complete by then is sent as a whole
_TOOLS_SHOWN_AFTER = 2.0  # seconds that a tool runs before it alone is worth a message


class ToolProgress:
    """The running tools, as a few short lines below the text of a reply. Owns the running calls. A
    group sees the names of the tools, not their arguments: those may be private."""

    def __init__(self, *, private: bool) -> None:
        self._private = private
        self._running: dict[CallId, str] = {}

    def update(self, event: TurnEvent) -> bool:
        """Whether something has begun, or is over."""
        if isinstance(event, ToolStarted):
            self._running[event.call_id] = self._line(event)
            return True
        return isinstance(event, ToolEnded) and self._running.pop(event.call_id, "") != ""

    def clear(self) -> None:
        self._running.clear()

    @property
    def lines(self) -> str:
        """ "": nothing runs."""
        lines = list(self._running.values())
        more = len(lines) - _MAX_LINES
        if more > 0:
            lines[_MAX_LINES:] = [f"▸ … and {more} more"]
        return "\n".join(lines)

    def _line(self, event: ToolStarted) -> str:
        shown = summarise_arguments(event.arguments).replace("`", "'") if self._private else ""
        if len(shown) > _MAX_LINE_LENGTH:
            shown = f"{shown[:_MAX_LINE_LENGTH]}…"
        # As code, so that nothing of it is markup, a mention or a link to the platform.
        return f"▸ {event.name} `{shown}`" if shown.strip() else f"▸ {event.name}"


class StreamText:
    """What a streamed reply shows: the text of its step, and below it the running tools. Owns the
    pieces of the current step, and the text of the previous one, which is shown until the current
    step has some. `tool_progress` None: tools are not shown."""

    def __init__(self, *, tool_progress: ToolProgress | None, previous: str = "") -> None:
        self._tool_progress = tool_progress
        self._previous = previous
        self._pieces: list[str] = []

    def update(self, event: TurnEvent) -> bool:
        """Whether there may be something new to show."""
        if isinstance(event, TextStreamed):
            self._pieces.append(event.text)
            return True
        if isinstance(event, StepEnded):
            self._previous = self.reply_text
        if isinstance(event, StepEnded | StreamVoided):
            self._pieces.clear()
            return False
        return self._tool_progress is not None and self._tool_progress.update(event)

    def reset(self) -> None:
        """A turn begins: no tool runs, and the current step has no text."""
        self._pieces.clear()
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
        """Reply and tools; "": there is nothing to show."""
        reply, tools = self.reply_text, self._tool_lines
        if not reply.strip():
            return tools
        return f"{reply}\n\n{tools}" if tools else reply

    def first_message(self, platform: Platform) -> tuple[str, str, bool]:
        """The first message, how much of it is reply text, and whether the reply needs a second
        message. Where reply and tools do not both fit, the tools are left out."""
        reply, *more = split_for_platform(self.reply_text, platform)
        if more or not self._tool_lines:
            return reply, reply, bool(more)
        whole = split_for_platform(self.text, platform)
        return whole[0] if len(whole) == 1 else reply, reply, False

    @property
    def _tool_lines(self) -> str:
        return "" if self._tool_progress is None else self._tool_progress.lines


class ReplyStream:
    """Owns when the reply is shown next and what is known of the message that shows it: text, and
    running tools, which are never part of the final reply.

    Only the first message of a long reply is shown while it is written: whether there will be a
    second is known at the end, and a message that was sent cannot be taken back. Nothing waits for
    what is shown here, and all of it may be dropped; the delivery sends the reply itself.
    """

    def __init__(
        self,
        new: NewDelivery,
        *,
        interval: float,
        show: Callable[["ReplyStream"], bool],
        writes: StoreWriter,
        clock: Clock,
        crash: CrashHook,
        tool_progress: ToolProgress | None = None,
        started: StartedDelivery | None = None,
    ) -> None:
        self.id = new.id
        self.address = new.address
        self.part = (
            recovered_part(started.parts[0])
            if started and started.parts
            else DeliveryPart(number=1)
        )
        self.shown_text = started.shown_text if started else ""
        self.muted = False  # nothing more is shown before the end
        self.started = started is not None  # its row is there, or on its way
        self._new = new
        self._interval = interval
        self._show = show
        self._writes = writes
        self._clock = clock
        self._crash = crash
        self._shown_reply_text = started.reply_text if started else ""
        self._text = StreamText(tool_progress=tool_progress, previous=self._shown_reply_text)
        self._timer: asyncio.TimerHandle | None = None
        self._next_at = 0.0
        self._row_written = self.started  # and nothing is shown before that
        self._attempted = started is not None and bool(started.parts)
        self._timer_for_tools = False  # the timer is set for tools alone
        self._full = False  # its first message holds no more of this step
        self._closed = False

    @property
    def as_started(self) -> StartedDelivery | None:
        """What another process needs to continue it; None: nothing was started."""
        if not self.started:
            return None
        return StartedDelivery(
            id=self.id,
            parts=(self.part,) if self._attempted else (),
            shown_text=self.shown_text,
            reply_text=self._shown_reply_text,
        )

    @property
    def edit_cooldown(self) -> float:
        """Seconds for which the platform wants no other edit of it."""
        return max(0.0, self._next_at - self._clock.monotonic())

    def update(self, event: TurnEvent) -> None:
        """An event of the turn, already redacted."""
        if self._text.update(event):
            self._schedule()
        elif isinstance(event, StepEnded | StreamVoided):
            self._full = False

    def _schedule(self) -> None:
        """There is something to show; text waits less long than tools."""
        if self._timer is not None and self._timer_for_tools and self._text.has_text:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._is_growing:
            self._set_timer()

    @property
    def _is_growing(self) -> bool:
        return not (self._full or self.muted or self._closed)

    def reopen(self, *, muted: bool) -> None:
        """A turn begins, or is resumed."""
        self._closed = False
        self.muted = self.muted or muted
        self._text.reset()
        self._full = False

    def close(self) -> None:
        """The turn has ended, or continues in another process: show nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """One timer at a time: when it fires, the newest text is shown."""
        self._timer_for_tools = not (self.started or self._text.has_text)
        first = (
            _TOOLS_SHOWN_AFTER if self._timer_for_tools else min(self._interval, _FIRST_SHOWN_AFTER)
        )
        until = self.edit_cooldown if self.started else first
        self._timer = asyncio.get_running_loop().call_later(until, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if not self._is_growing or not self._unshown_text():
            return
        if self.edit_cooldown:  # something was shown since it was set
            self._set_timer()
        elif not self.started:
            self._write_row()
        elif self._row_written and not self._show(self):  # deliveries go first
            self._next_at = self._clock.monotonic() + self._interval
            self._set_timer()

    def _unshown_text(self) -> str:
        """What would be shown, if that is not what is shown already."""
        text = self._text.text
        return text if text != self.shown_text else ""

    def _write_row(self) -> None:
        """The row, before the first piece. Queued now, so that the end of the turn finds it."""
        self.started = True
        writing = self._writes.write(BeginStream(new=self._new, at=self._clock.now()))
        asyncio.ensure_future(writing).add_done_callback(self._on_row_written)

    def _on_row_written(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            self.muted = True
            about = {"action": "reply_stream_failed", "session": self._new.session_id}
            log.warning("Could not start streaming a reply: %s", error, extra=about)
            return
        self._row_written = True
        self._crash(CrashPoint.STREAM_ROW_COMMITTED)
        if self._timer is None:
            self._on_timer()

    async def show(self, part_sender: PartSender, platform: Platform, send_gate: SendGate) -> None:
        """Show the newest text, in one attempt. Whatever fails, the final delivery corrects it."""
        first, reply_text, more = self._text.first_message(platform)
        if (
            not first
            or first == self.shown_text
            or not self._is_growing
            or not self._may_send(platform)
        ):
            return
        outgoing = OutgoingPart(
            delivery_id=self.id,
            scope=self._new.scope,
            address=self.address,
            text=first,
            final=False,
        )
        sending = self.part.platform_message_id is None
        self._attempted = True
        # A turn that ends during this call counts the text as shown: people may read it already.
        before, self._shown_reply_text = self._shown_reply_text, reply_text
        try:
            self.part = await part_sender.send_or_edit(outgoing, self.part, platform)
            self.shown_text = "" if sending and self.part.outcome_unknown else first
            self._shown_reply_text = reply_text if self.shown_text else ""
            self._full = more
        except SendError as error:
            self._shown_reply_text = before
            self._on_send_error(error, sending=sending, send_gate=send_gate)
        self._next_at = self._clock.monotonic() + self._interval
        if self._timer is None and self._is_growing and self._unshown_text():
            self._set_timer()

    def _on_send_error(self, error: SendError, *, sending: bool, send_gate: SendGate) -> None:
        if sending:
            self.part = part_after_error(self.part, error, final=False)
        if isinstance(error, Throttled | NotConnected):
            send_gate.record_blocked(error)
            return
        self.muted = sending or isinstance(error, SendRejected)
        if not isinstance(error, SendRejected):
            # Unknown what is shown: the last edit is made in any case.
            self.shown_text = self._shown_reply_text = ""

    def _may_send(self, platform: Platform) -> bool:
        """A message that may have arrived is sent again only at the end, complete; unless the
        platform accepts it once, and then returns its id."""
        self.muted = self.muted or editor_of(platform) is None
        unknown = self.part.outcome_unknown and self.part.platform_message_id is None
        if unknown and not platform.capabilities.can_resolve_unknown:
            self.muted = True
        return not self.muted
