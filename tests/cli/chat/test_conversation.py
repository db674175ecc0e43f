"""The chat screen shows each message once, in whatever order events arrive."""

from io import StringIO

import pytest

from holdfast.cli.chat.conversation import ConversationView
from holdfast.cli.chat.markdown import MarkdownStream
from holdfast.cli.chat.screen import PlainScreen, format_call, format_outcome, open_screen
from holdfast.cli.common.output import sanitize
from holdfast.cli.common.rendering import render
from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Message,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.gateway.turns.transcript_notes import interruption_note
from holdfast.server.api.client import ReceivedEvent, parse_events
from holdfast.server.api.views.sessions import (
    LiveState,
    RecordView,
    RetryEvent,
    TextEvent,
    VoidEvent,
)


def record(seq: int, message: Message, *, turn: str = "t1") -> ReceivedEvent:
    return ReceivedEvent(
        "record", RecordView(seq=seq, turn_id=turn, at=float(seq), message=message)
    )


def text(piece: str) -> ReceivedEvent:
    return ReceivedEvent("text", TextEvent(text=piece))


def live(so_far: str = "", *, turn: str = "t1") -> ReceivedEvent:
    return ReceivedEvent("live", LiveState(turn_id=turn, text=so_far))


NOTHING_RUNS = ReceivedEvent("live", None)
ASKED = record(1, UserMessage(text="why?"))
ANSWER = record(2, AssistantMessage(text="because"))


def screen_after(*events: ReceivedEvent, typed: str = "") -> str:
    out = StringIO()
    conversation = ConversationView(open_screen(out))
    if typed:
        conversation.add_typed(typed)
    for event in events:
        conversation.handle_event(event)
    return out.getvalue()


@pytest.mark.parametrize(
    "events",
    [
        [live(), ASKED, text("be"), text("cause"), ANSWER, NOTHING_RUNS],
        [live(), text("be"), ASKED, text("cause"), ANSWER, NOTHING_RUNS],
        [live("because"), NOTHING_RUNS, ASKED, ANSWER],
        [live(), ASKED, text("because"), NOTHING_RUNS, ANSWER],
        [live(), ASKED, text("because"), live(""), ANSWER, live("")],
        [ASKED, ANSWER, ASKED, ANSWER],
        [live(), ASKED, text("beca"), live("be"), text("cause"), ANSWER],
        [
            live(),
            ASKED,
            text("beca"),
            ReceivedEvent("void", VoidEvent(why="x")),
            text("because"),
            ANSWER,
        ],
        [live(), ASKED, text("because"), ANSWER, live("because")],
    ],
)
def test_a_question_and_its_answer_are_shown_once(events: list[ReceivedEvent]) -> None:
    assert screen_after(*events) == "> why?\nbecause\n"


def test_a_message_typed_in_this_chat_is_not_shown_again() -> None:
    assert screen_after(ASKED, ANSWER, typed="why?") == "because\n"


def test_a_changed_reply_after_a_retry_is_shown() -> None:
    shown = screen_after(ASKED, live("per"), live("be"), text("cause"), ANSWER, typed="why?")
    assert shown == "per\n↻ the model was asked again:\nbecause\n"


RETRY = RetryEvent(text="The model is overloaded", attempt=2, attempts=5, delay=8.0)


@pytest.mark.parametrize(
    "event",
    [
        ReceivedEvent("retry", RETRY),
        ReceivedEvent("live", LiveState(turn_id="t1", retry=RETRY)),
    ],
)
def test_a_retry_of_the_model_is_shown_until_it_answers(event: ReceivedEvent) -> None:
    shown: list[str] = []

    class RecordingScreen(PlainScreen):
        def print_transient(self, text: str) -> None:
            shown.append(text)

    out = StringIO()
    conversation = ConversationView(RecordingScreen(out))
    for each in (ASKED, live(), event, text("because"), ANSWER):
        conversation.handle_event(each)
    assert (shown, out.getvalue()) == (["↻ The model is overloaded"], "> why?\nbecause\n")


def test_an_uncommitted_step_does_not_leak_into_the_next_turn() -> None:
    again = record(3, UserMessage(text="and?"), turn="t2")
    shown = screen_after(ASKED, live("half"), live("", turn="t2"), again, text("more"))
    assert shown == "> why?\nhalf\n> and?\nmore"


def test_calls_are_shown_in_one_line_with_their_outcome() -> None:
    call = ToolCall(id=CallId("c1"), name="process", arguments='{"action": "list"}')
    shown = screen_after(
        record(1, AssistantMessage(text="I look.", calls=(call,))),
        record(2, ToolMessage(call_id=CallId("c1"), name="process", text="none")),
    )
    assert shown == "I look.\n▸ process: list … ok 1.0 s\n"


def test_done_failed_denied_and_unknown_calls_look_different() -> None:
    def shown(outcome: ToolOutcome, exit_code: int | None = None) -> tuple[str, str]:
        call = ToolMessage(
            call_id=CallId("c1"), name="terminal", text="", outcome=outcome, exit_code=exit_code
        )
        return format_outcome(call, seconds=None)

    assert shown(ToolOutcome.OK, 0) == ("… ok", "green")
    assert shown(ToolOutcome.ERROR, 3) == ("… failed (exit code 3)", "red")
    assert shown(ToolOutcome.REFUSED) == ("… denied", "magenta")
    assert shown(ToolOutcome.UNKNOWN) == ("… outcome unknown", "yellow")
    ends = [shown(outcome) for outcome in ToolOutcome]
    assert len({text for text, _style in ends}) == len(ends)


MARKDOWN = """\
# Title
2**3 is **bold** and `a*b`, <b>not HTML</b>
and [a link](http://x) in line two

```py
x = '**'
```
- one
- two

| a | b |
|---|---|
| 1 | 家 |

end **"""


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_markdown_is_rendered_the_same_however_it_is_streamed(size: int) -> None:
    reply = MarkdownStream()
    pieces = [MARKDOWN[at : at + size] for at in range(0, len(MARKDOWN), size)]
    blocks = [*(block for piece in pieces for block in reply.feed(piece)), *reply.finish()]
    shown = [render(block).strip("\n") for block in blocks]
    assert shown == [
        "Title",
        "2**3 is bold and a*b, <b>not HTML</b>\nand a link (http://x) in line two",
        "x = '**'",
        " • one\n • two",
        " a  b\n ─────\n 1  家",
        "end **",
    ]


def test_code_is_printed_as_it_is_so_that_it_can_be_copied() -> None:
    code = "curl --data '" + "x" * 300 + "'\n\n  indented"
    reply = MarkdownStream()
    reply.feed(f"```sh\n{code}\n```\n")
    [block] = reply.finish()
    assert render(block) == code


def test_terminal_control_sequences_are_removed() -> None:
    assert sanitize("a\x1b[2J\x9bb\r\n\tc\x07") == "a\ufffd[2J\ufffdb\n\tc\ufffd"


def test_events_are_parsed_with_any_line_ending_and_unknown_ones_are_skipped() -> None:
    lines = (
        b': hi\r\n\r\nevent: text\r\ndata: {"text":\r\ndata: "a"}\r\n\r\nevent: new\ndata: 1\n\n'
    )
    [event] = parse_events(lines.split(b"\n"))
    assert event.body == TextEvent(text="a")


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (interruption_note("crash"), "· an interruption cut the last turn.\n"),
        (
            NoteMessage(
                text="[System note: the task “[look]” has ended. Its reply is below.]\n\nhi"
            ),
            "· the task “[look]” has ended.\n",
        ),
        (NoteMessage(text="it is late"), "· it is late.\n"),
    ],
)
def test_a_note_to_the_model_is_shown_as_its_text(note: NoteMessage, shown: str) -> None:
    assert screen_after(record(1, note)) == shown


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("terminal", '{"command": "ls -la"}', "▸ terminal: ls -la"),
        ("process", '{"action": "kill", "id": "p1"}', "▸ process: kill p1"),
        ("delegate", '{"tasks": [{"task": "one"}, {"task": "two"}]}', "▸ delegate: one · two"),
        ("delegate", '{"tasks": ["odd"]}', "▸ delegate: odd"),
        ("broken", "{", "▸ broken: {"),
    ],
)
def test_a_call_is_one_line_with_its_main_argument(name: str, arguments: str, line: str) -> None:
    assert format_call(name, arguments) == line
