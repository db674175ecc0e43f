"""Turns the events of one session into lines on a screen, each shown once."""

import msgspec

from holdfast.cli.approvals import approval_prompt
from holdfast.cli.chat.screen import Screen, format_call, format_outcome, last_line
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.turn_state import LaneState
from holdfast.server.api.client import ReceivedEvent
from holdfast.server.api.views.sessions import (
    ApprovalView,
    EndedEvent,
    LiveState,
    MessageView,
    RecordView,
    RetryEvent,
    SessionView,
    TextEvent,
    ToolEvent,
    VoidEvent,
)

_RETRY_NOTE = N_("↻ the model was asked again:")
_COMPACTION_NOTE = N_("· the conversation up to here was summarised for the model")
_OUTPUT_TAIL = 2000  # characters kept of a running call's output, to show its last line


class _ToolCall(msgspec.Struct):
    line: str
    output: str = ""


class ConversationView:
    """Owns which part of a session is on the screen.

    A model that is asked again, after a fault or a restart, often repeats its text: what is on
    the screen is not printed again as long as the new text is the same.
    """

    def __init__(self, screen: Screen, *, after: int = 0) -> None:
        self._screen = screen
        self._seq = after
        self._printed = ""  # text of the current step that is on the screen
        self._text = ""  # text of the current step that was received
        self._turn: str | None = None  # the turn of the current step
        self._seen_turn: str | None = None  # the turn of the last record
        self._done_turn: str | None = None  # the last turn whose final answer was recorded
        self._calls: dict[str, _ToolCall] = {}
        self._last_record_at = 0.0  # when the last record was written
        self._typed_texts: list[str] = []  # typed here, and not received as a record yet
        self.pending_approvals: set[str] = set()  # shown, and not answered yet
        self.running = False
        self.current = True

    def add_typed(self, text: str) -> None:
        """Remembers a text that was typed here, so that its record is not shown again."""
        self._typed_texts.append(text)

    def handle_event(self, event: ReceivedEvent) -> None:
        """Shows what is new in an event."""
        match event.body:
            case RecordView():
                self.show_record(event.body)
            case TextEvent() if event.kind == "text":
                self._text += event.body.text
                self._print_if_current()
            case TextEvent():
                self._screen.print_transient(_("thinking …"))
            case ToolEvent():
                self._show_progress(event.body)
            case VoidEvent():
                self._text = ""
            case RetryEvent() as retry:
                self._screen.print_transient(f"↻ {retry.text}")
            case SessionView():
                self.running = event.body.state is not LaneState.IDLE
                self.current = event.body.current
            case EndedEvent():
                pass  # the sender of the message asks for the result
            case live:
                self._sync_live(live)

    def show_record(self, record: RecordView) -> None:
        if record.seq <= self._seq:
            return
        self._seq, self._seen_turn = record.seq, record.turn_id
        self._turn = self._turn or record.turn_id
        match record.message:
            case UserMessage(text=text):
                self._show_user(text)
            case AssistantMessage() as message:
                self._show_assistant(message, record.turn_id)
            case ToolMessage() as result:
                self._show_result(result, record.at)
            case NoteMessage() as note:
                self._screen.print_line(f"· {note.summary}", style="dim")
            case CompactionMessage():
                self._screen.print_line(_(_COMPACTION_NOTE), style="dim")
        self._last_record_at = record.at
        self._print_if_current()

    def show_end(self, message: MessageView, *, of_command: bool) -> None:
        """Shows how a message ended, if no record shows it: commands leave no record."""
        match message.state:
            case InboxState.FAILED | InboxState.REFUSED:
                self._finish_step("")
                self._screen.print_line(message.text or message.reason, style="red")
            case InboxState.SUPERSEDED:
                self._finish_step("")
                self._screen.print_line(f"■ {message.reason or _('stopped')}", style="yellow")
            case InboxState.ANSWERED if of_command:
                self._screen.stream(message.text)
                self._screen.end_stream()

    def _show_user(self, text: str) -> None:
        if text in self._typed_texts:
            self._typed_texts.remove(text)
            return
        self._screen.print_line(
            "\n".join(f"> {line}" for line in text.splitlines() or [""]), style="bold"
        )

    def _show_assistant(self, message: AssistantMessage, turn: str | None) -> None:
        self._finish_step(message.text)
        self._done_turn = self._done_turn if message.calls else turn
        self._calls = {
            call.id: _ToolCall(format_call(call.name, call.arguments)) for call in message.calls
        }
        if self._calls:
            self._screen.print_transient(next(iter(self._calls.values())).line + " …")

    def _show_result(self, result: ToolMessage, at: float) -> None:
        call = self._calls.pop(result.call_id, None) or _ToolCall(format_call(result.name, ""))
        seconds = max(0.0, at - self._last_record_at) if self._last_record_at else None
        self._screen.print_step(call.line, *format_outcome(result, seconds))

    def _show_progress(self, progress: ToolEvent) -> None:
        call = self._calls.get(progress.call_id)
        if call is not None:
            call.output = (call.output + progress.text)[-_OUTPUT_TAIL:]
            self._screen.print_transient(f"{call.line} … {last_line(call.output)}")

    def _sync_live(self, live: LiveState | None) -> None:
        self.running = live is not None and not live.idle
        self._show_approvals(live.approvals if live else [])
        if live is None or live.idle:
            return  # the end of its text may not be recorded yet: keep what is shown
        if live.turn_id != self._turn:
            self._finish_step("")
            self._turn = live.turn_id
        self._text = "" if live.turn_id == self._done_turn else live.text
        self._print_if_current()
        for call in live.calls:
            known = self._calls.setdefault(
                call.call_id, _ToolCall(format_call(call.name, call.arguments))
            )
            known.output = call.output[-_OUTPUT_TAIL:]
            self._screen.print_transient(f"{known.line} … {last_line(known.output)}")
        if live.retry is not None:
            self._screen.print_transient(f"↻ {live.retry.text}")

    def _show_approvals(self, approvals: list[ApprovalView]) -> None:
        for approval in approvals:
            if approval.id not in self.pending_approvals:
                self._screen.print_line(
                    approval_prompt(approval, is_only=len(approvals) == 1), style="yellow"
                )
        self.pending_approvals = {approval.id for approval in approvals}

    def _print_if_current(self) -> None:
        # Text may arrive before the record of its question; it is shown after the question.
        if self._turn == self._seen_turn:
            self._print_text()

    def _print_text(self) -> None:
        if self._text.startswith(self._printed):
            self._screen.stream(self._text[len(self._printed) :])
        elif self._printed.startswith(self._text):
            return  # so far, it repeats what is on the screen
        else:
            self._screen.print_line(_(_RETRY_NOTE), style="dim")
            self._screen.stream(self._text)
        self._printed = self._text

    def _finish_step(self, text: str) -> None:
        """Ends the step, whose whole text is `text`; "" if nothing of it was recorded."""
        if text and text.rstrip() != self._printed.rstrip():
            self._text = text
            if self._printed.startswith(text):
                self._printed, self._text = "", text
                self._screen.print_line(_(_RETRY_NOTE), style="dim")
            self._print_text()
        self._screen.end_stream()
        self._text = self._printed = ""
