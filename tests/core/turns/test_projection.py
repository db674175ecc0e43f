"""Any history, also an interrupted one, is projected to a request that every provider accepts."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ids import CallId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    Image,
    Message,
    NoteMessage,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.projection import NO_RESULT, open_calls, project, projection_problems

IDS = st.sampled_from(["a", "b", "c", "d"]).map(CallId)
ARGUMENTS = (
    st.sampled_from(["{}", '{"x": 1}', "", "[1]", '{"x":', "null", "\x00", "\ud800"]) | st.text()
)
CALLS = st.builds(
    ToolCall, id=IDS, name=st.sampled_from(["terminal", "read", ""]), arguments=ARGUMENTS
)
MESSAGES = st.one_of(
    st.builds(UserMessage, text=st.text(), images=st.sampled_from([(), (Image(url="x"),)])),
    st.builds(
        AssistantMessage,
        text=st.text(),
        calls=st.lists(CALLS, max_size=3).map(tuple),
        stop=st.sampled_from(StopReason),
    ),
    st.builds(
        ToolMessage,
        call_id=IDS,
        name=st.just("terminal"),
        text=st.text(),
        images=st.sampled_from([(), (Image(url="y"),)]),
    ),
    st.builds(NoteMessage, text=st.just("[System note: x]")),
)
ASK = UserMessage(text="list the files")
CALL = ToolCall(id=CallId("a"), name="terminal", arguments='{"command": "ls"}')


@given(st.lists(MESSAGES, max_size=12))
def test_every_history_gives_a_valid_request(history: list[Message]) -> None:
    """H7: the transcript is always one that a provider accepts."""
    assert projection_problems(project(history)) == []


@given(st.lists(MESSAGES, max_size=12))
def test_projecting_twice_changes_nothing_more(history: list[Message]) -> None:
    once = project(history)
    assert project(once) == once


def test_a_valid_history_is_projected_unchanged() -> None:
    history = (
        ASK,
        AssistantMessage(calls=(CALL,)),
        ToolMessage(call_id=CALL.id, name="terminal", text="README.md"),
    )
    assert project(history) == history


def test_the_images_of_results_follow_the_last_result() -> None:
    """Between two results nothing may stand."""
    second = ToolCall(id=CallId("b"), name="browser", arguments="{}")
    history: list[Message] = [
        ASK,
        AssistantMessage(calls=(CALL, second)),
        ToolMessage(call_id=CALL.id, name="terminal", text="1", images=(Image(url="one"),)),
        ToolMessage(call_id=second.id, name="browser", text="2", images=(Image(url="two"),)),
    ]
    *_, one, two, shown = project(history)
    assert [one, two] == [msgspec.structs.replace(m, images=()) for m in history[2:]]
    assert isinstance(shown, UserMessage)
    assert [image.url for image in shown.images] == ["one", "two"]


def test_a_call_without_a_result_gets_an_unknown_outcome() -> None:
    projected = project([ASK, AssistantMessage(calls=(CALL,)), UserMessage(text="well?")])
    result = projected[2]
    assert isinstance(result, ToolMessage)
    assert (result.text, result.outcome) == (NO_RESULT, ToolOutcome.UNKNOWN)


def test_a_result_follows_its_call_though_a_steer_came_between() -> None:
    result = ToolMessage(call_id=CALL.id, name="terminal", text="README.md")
    steer = UserMessage(text="only the hidden ones")
    projected = project([ASK, AssistantMessage(calls=(CALL,)), steer, result])
    assert projected == (ASK, AssistantMessage(calls=(CALL,)), result, steer)


def test_the_checker_finds_every_problem() -> None:
    assert projection_problems([AssistantMessage(calls=(CALL,)), ASK])[:2] == [
        "does not begin with a user",
        "message 1: between a call and its result",
    ]
    assert projection_problems([ASK, AssistantMessage(calls=(CALL,))])[-1].startswith("ends before")
    assert projection_problems([ASK, ToolMessage(call_id=CALL.id, name="x", text="y")]) == [
        "message 1: a result without a call"
    ]


def test_open_calls_are_those_of_the_last_reply_without_a_result() -> None:
    second = ToolCall(id=CallId("b"), name="read", arguments="{}")
    reply = AssistantMessage(calls=(CALL, second))
    done = ToolMessage(call_id=CALL.id, name="terminal", text="ok")
    assert open_calls([ASK, reply, done]) == (second,)
    assert open_calls([ASK, reply, done, NoteMessage(text="cut")]) == (second,)
    assert open_calls([ASK]) == ()
