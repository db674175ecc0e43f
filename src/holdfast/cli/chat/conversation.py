"""A conversation on a screen: events go in, and each thing is shown once."""

import msgspec

from holdfast.cli.approvals_shown import asking
from holdfast.cli.chat.screen import Screen
from holdfast.cli.chat.steps import folded, last_line, verdict
from holdfast.core.messages.inbox import InboxState
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.turn import LaneState
from holdfast.server.api.following import Happened
from holdfast.server.api.views.approval_views import ApprovalView
from holdfast.server.api.views.event_views import EndedEvent, TextEvent, ToolEvent, VoidEvent
from holdfast.server.api.views.message_views import MessageView
from holdfast.server.api.views.session_views import Live, RecordView, SessionView

_AGAIN = "↻ the model was asked again:"
_COMPACTED = "· what was said before is summarised for the model"
_TAIL = 2000  # characters of a running call's output that are kept, for its last line


class _Call(msgspec.Struct):
    line: str
    output: str = ""


class Conversation:
    """Owns what of one session is on the screen, and how far its log has been seen.

    A model that is asked again, after a fault or a restart, often says the same: what is on the
    screen already is not printed again as long as the new text agrees with it.
    """

    def __init__(self, screen: Screen, *, after: int = 0) -> None:
        self._screen = screen
        self._seq = after
        self._shown = ""  # of the present step, what is on the screen
        self._text = ""  # of the present step, what has been said
        self._turn: str | None = None  # the turn whose step that is
        self._seen_turn: str | None = None  # the turn of the last record
        self._done_turn: str | None = None  # the last turn that said its final word
        self._calls: dict[str, _Call] = {}
        self._since = 0.0  # when the last record was written
        self._own: list[str] = []  # what was typed here and has not come back as a record
        self.asked: set[str] = set()  # approvals that are waited for, and on the screen
        self.running = False
        self.current = True

    def typed(self, text: str) -> None:
        """This text stands on the screen already, because it was typed there."""
        self._own.append(text)

    def take(self, event: Happened) -> None:
        """Show what is new in an event."""
        match event.body:
            case RecordView():
                self.record(event.body)
            case TextEvent() if event.kind == "text":
                self._text += event.body.text
                self._catch_up()
            case TextEvent():
                self._screen.passing("thinking …")
            case ToolEvent():
                self._progress(event.body)
            case VoidEvent():
                self._text = ""
            case SessionView():
                self.running = event.body.state is not LaneState.IDLE
                self.current = event.body.current
            case EndedEvent():
                pass  # whoever sent the message asks what became of it
            case live:
                self._replace(live)

    def record(self, record: RecordView) -> None:
        if record.seq <= self._seq:
            return
        self._seq, self._seen_turn = record.seq, record.turn_id
        self._turn = self._turn or record.turn_id
        match record.message:
            case UserMessage(text=text):
                self._user(text)
            case AssistantMessage() as said:
                self._said(said, record.turn_id)
            case ToolMessage() as result:
                self._result(result, record.at)
            case NoteMessage() as note:
                self._screen.line(f"· {note.gist}", dim=True)
            case CompactionMessage():
                self._screen.line(_COMPACTED, dim=True)
        self._since = record.at
        self._catch_up()

    def tell_end(self, message: MessageView, *, of_command: bool) -> None:
        """How a message of ours ended, where no record says it: commands leave none."""
        match message.state:
            case InboxState.FAILED | InboxState.REFUSED:
                self._settle("")
                self._screen.line(message.text or message.reason, fg="red")
            case InboxState.SUPERSEDED:
                self._settle("")
                self._screen.line(f"■ {message.reason or 'stopped'}", fg="yellow")
            case InboxState.ANSWERED if of_command:
                self._screen.stream(message.text)
                self._screen.end_stream()

    def _user(self, text: str) -> None:
        if text in self._own:
            self._own.remove(text)
            return
        self._screen.line("\n".join(f"> {line}" for line in text.splitlines() or [""]), bold=True)

    def _said(self, said: AssistantMessage, turn: str | None) -> None:
        self._settle(said.text)
        self._done_turn = self._done_turn if said.calls else turn
        self._calls = {call.id: _Call(folded(call.name, call.arguments)) for call in said.calls}
        if self._calls:
            self._screen.passing(next(iter(self._calls.values())).line + " …")

    def _result(self, result: ToolMessage, at: float) -> None:
        call = self._calls.pop(result.call_id, None) or _Call(folded(result.name, ""))
        seconds = max(0.0, at - self._since) if self._since else None
        self._screen.step(call.line, *verdict(result.outcome, seconds))

    def _progress(self, progress: ToolEvent) -> None:
        call = self._calls.get(progress.call_id)
        if call is not None:
            call.output = (call.output + progress.text)[-_TAIL:]
            self._screen.passing(f"{call.line} … {last_line(call.output)}")

    def _replace(self, live: Live | None) -> None:
        self.running = live is not None and not live.resting
        self._ask(live.approvals if live else [])
        if live is None or live.resting:
            return  # its last words may be on their way to the log: what is shown stays shown
        if live.turn_id != self._turn:
            self._settle("")
            self._turn = live.turn_id
        self._text = "" if live.turn_id == self._done_turn else live.text
        self._catch_up()
        for call in live.calls:
            known = self._calls.setdefault(call.call_id, _Call(folded(call.name, call.arguments)))
            known.output = call.output[-_TAIL:]
            self._screen.passing(f"{known.line} … {last_line(known.output)}")

    def _ask(self, approvals: list[ApprovalView]) -> None:
        for approval in approvals:
            if approval.id not in self.asked:
                self._screen.line(asking(approval, alone=len(approvals) == 1), fg="yellow")
        self.asked = {approval.id for approval in approvals}

    def _catch_up(self) -> None:
        # A model may answer before the question is written down; it is shown after it.
        if self._turn == self._seen_turn:
            self._print()

    def _print(self) -> None:
        if self._text.startswith(self._shown):
            self._screen.stream(self._text[len(self._shown) :])
        elif self._shown.startswith(self._text):
            return  # so far it says again what is there
        else:
            self._screen.line(_AGAIN, dim=True)
            self._screen.stream(self._text)
        self._shown = self._text

    def _settle(self, text: str) -> None:
        """The step is over, and `text` is all it said; "" where nothing was committed."""
        if text and text.rstrip() != self._shown.rstrip():
            self._text = text
            if self._shown.startswith(text):
                self._shown, self._text = "", text
                self._screen.line(_AGAIN, dim=True)
            self._print()
        self._screen.end_stream()
        self._text = self._shown = ""
