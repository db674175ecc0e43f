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


# MERGED holdfast.gateway.outbound.doing: What a turn does at the moment, as a few short lines beneath the words that it shows.
_MAX_LINES = 3  # lines
_MAX_LINE_LENGTH = 60  # characters of what a call is about


class ToolProgress:
    """Owns the calls that run. Whoever looks on in a group sees which tools, and not with what: not
    all that is asked for there is everybody's."""

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
        told = summarise_arguments(event.arguments).replace("`", "'") if self._private else ""
        cut = told if len(told) <= _MAX_LINE_LENGTH else f"{told[:_MAX_LINE_LENGTH]}…"
        # As code: nothing of it is a mark, a mention or a link to the platform.
        return f"▸ {event.name} `{cut}`" if cut.strip() else f"▸ {event.name}"


# MERGED holdfast.gateway.outbound.wording: What a growing reply would show: the words of its step, and beneath them what is being done.
class StreamText:
    """Owns the pieces of the present step, and the words of those before it, which stand until
    there is something better. `doing` None: it is not shown."""

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
        """A turn begins: nothing runs, and the present step has not said anything."""
        self._pieces.clear()
        if self._tool_progress is not None:
            self._tool_progress.clear()

    @property
    def has_text(self) -> bool:
        return bool(self._pieces)

    @property
    def reply_text(self) -> str:
        words = "".join(self._pieces)
        return words if words.strip() else self._previous

    @property
    def text(self) -> str:
        """All of it; "": there is nothing to show."""
        words, doing = self.reply_text, self._tool_lines
        if not words.strip():
            return doing
        return f"{words}\n\n{doing}" if doing else words

    def first_message(self, platform: Platform) -> tuple[str, str, bool]:
        """The first message, what of it are words, and whether those need another one. For what is
        being done no word gives way: where both do not fit, it is left out."""
        words, *more = split_for_platform(self.reply_text, platform)
        if more or not self._tool_lines:
            return words, words, bool(more)
        whole = split_for_platform(self.text, platform)
        return whole[0] if len(whole) == 1 else words, words, False

    @property
    def _tool_lines(self) -> str:
        return "" if self._tool_progress is None else self._tool_progress.lines


# MERGED holdfast.gateway.outbound.reply_stream: A reply as it grows: shown in its chat before it is whole, always as the same message.
_FIRST_SHOWN_AFTER = 0.5  # seconds at most: a reply that is whole by then is sent in one piece
_TOOLS_SHOWN_AFTER = 2.0  # seconds that a tool runs before it alone is worth a message


class ReplyStream:
    """Owns when something is shown and what is known of the message that shows it: words, and tools
    that run, which are never a part of the reply itself.

    Only the first message of a long reply is shown as it grows: whether there will be a second
    is known at the end, and one that was sent cannot be taken back. Nothing that is shown here
    is waited for, and all of it may be left out; the reply itself is the delivery's to bring.
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
        self._timer_for_tools = False  # the timer is set for what is done alone
        self._full = False  # its first message holds no more of this step
        self._closed = False

    @property
    def as_started(self) -> StartedDelivery | None:
        """What a turn that goes on elsewhere needs of it; None: nothing was begun."""
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
        """What watchers see of the turn; every secret has been taken out of it."""
        if self._text.update(event):
            self._schedule()
        elif isinstance(event, StepEnded | StreamVoided):
            self._full = False

    def _schedule(self) -> None:
        """There is something to show, when it is time; words wait less long than what is done."""
        if self._timer is not None and self._timer_for_tools and self._text.has_text:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._is_growing:
            self._set_timer()

    @property
    def _is_growing(self) -> bool:
        return not (self._full or self.muted or self._closed)

    def reopen(self, *, muted: bool) -> None:
        """A turn begins, or goes on after it was set aside."""
        self._closed = False
        self.muted = self.muted or muted
        self._text.reset()
        self._full = False

    def close(self) -> None:
        """The turn has ended, or goes on elsewhere: nothing more grows here."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        """One timer, whatever comes meanwhile: when it rings, the newest words are shown."""
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
        elif self._row_written and not self._show(self):  # the chat has more pressing things
            self._next_at = self._clock.monotonic() + self._interval
            self._set_timer()

    def _unshown_text(self) -> str:
        """What would be shown, if that is not what is shown already."""
        text = self._text.text
        return text if text != self.shown_text else ""

    def _write_row(self) -> None:
        """The row, before the first piece. Queued now, so that the end of the turn finds it."""
        self.started = True
        writing = self._writes.begin_stream(self._new, at=self._clock.now())
        asyncio.ensure_future(writing).add_done_callback(self._on_row_written)

    def _on_row_written(self, done: asyncio.Future[None]) -> None:
        if done.cancelled():
            return
        if error := done.exception():
            self.muted = True
            about = {"action": "reply_stream_failed", "session": self._new.session_id}
            log.warning("A reply is not shown as it grows: %s", error, extra=about)
            return
        self._row_written = True
        self._crash(CrashPoint.STREAM_ROW_COMMITTED)
        if self._timer is None:
            self._on_timer()

    async def send(self, part_sender: PartSender, platform: Platform, send_gate: SendGate) -> None:
        """Show the newest words, in one try. Whatever goes wrong, the end makes it good."""
        first, words, more = self._text.first_message(platform)
        if (
            not first
            or first == self.shown_text
            or not self._is_growing
            or not self._may_send(platform)
        ):
            return
        post = OutgoingPart(delivery_id=self.id, address=self.address, text=first, final=False)
        sending = self.part.platform_message_id is None
        self._attempted = True
        # A turn that ends while they are on their way keeps them: people may read them already.
        before, self._shown_reply_text = self._shown_reply_text, words
        try:
            self.part = await part_sender.send_or_edit(post, self.part, platform)
            self.shown_text = "" if sending and self.part.outcome_unknown else first
            self._shown_reply_text = words if self.shown_text else ""
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
            # As far as anybody knows: the last edit is made in any case.
            self.shown_text = self._shown_reply_text = ""

    def _may_send(self, platform: Platform) -> bool:
        """What may have arrived is sent again by the end alone, with all its words; unless the
        platform takes it once, and then says where it is."""
        self.muted = self.muted or editor_of(platform) is None
        unheard = self.part.outcome_unknown and self.part.platform_message_id is None
        if unheard and not platform.capabilities.can_resolve_unknown:
            self.muted = True
        return not self.muted
