"""The demo model decides every step from the transcript alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.config.settings import Provider
from holdfast.core.messages.transcript import (
    Message,
    NoteMessage,
    StopReason,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.turns.model import Completed, ModelFailed, ModelRequest, TextDelta, ToolSchema
from holdfast.models.demo import DemoModel
from holdfast.models.target import ModelTarget

TARGET = ModelTarget(provider=Provider.DEMO, name="demo")
ALL_TOOLS = ("terminal", "process", "read", "write", "edit")
Tool = Callable[[str, dict[str, Any]], str]


def request(*messages: Message, tools: tuple[str, ...] = ALL_TOOLS) -> ModelRequest:
    schemas = tuple(ToolSchema(name=n, description="", parameters={}) for n in tools)
    return ModelRequest(system="s", messages=messages, tools=schemas)


async def no_wait(_: float) -> None:
    return None


async def ask(asked: ModelRequest) -> Completed:
    # A new client for each call: whatever it knows, it knows from the request.
    events = [event async for event in DemoModel(TARGET, sleep=no_wait).stream(asked)]
    *deltas, last = events
    assert isinstance(last, Completed)
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert text == last.message.text
    return last


async def run_to_end(
    text: str, tool: Tool, *, tools: tuple[str, ...] = ALL_TOOLS
) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Run a conversation until the model calls no tool; its calls, and its last text."""
    messages: list[Message] = [UserMessage(text=text)]
    made: list[tuple[str, dict[str, Any]]] = []
    while True:
        reply = (await ask(request(*messages, tools=tools))).message
        if not reply.calls:
            assert reply.stop is StopReason.END
            return made, reply.text
        messages.append(reply)
        for call in reply.calls:
            arguments = json.loads(call.arguments)
            made.append((call.name, arguments))
            result = tool(call.name, arguments)
            messages.append(ToolMessage(call_id=call.id, name=call.name, text=result))
        # A restart in the middle leaves a note, and changes nothing.
        messages.append(NoteMessage(text="[System note: a restart]"))


async def test_the_demo_model_says_what_it_is_and_how_to_get_a_real_model() -> None:
    for text in ("hi", "help", ""):
        said = (await ask(request(UserMessage(text=text)))).message.text
        assert "demo model" in said
        assert "[model]" in said
        assert "ANTHROPIC_API_KEY" in said


@pytest.mark.parametrize("text", ["run uname -a", "please run: `uname -a`", "Run uname -a"])
async def test_the_demo_model_runs_the_requested_command(text: str) -> None:
    calls, said = await run_to_end(text, lambda *_: "Linux")
    assert calls == [("terminal", {"command": "uname -a"})]
    assert "Linux" in said


async def test_the_demo_model_writes_edits_and_reads_a_file() -> None:
    files: dict[str, str] = {}

    def tool(name: str, arguments: dict[str, Any]) -> str:
        path = arguments["path"]
        if name == "write":
            files[path] = arguments["content"]
        elif name == "edit":
            assert files[path].count(arguments["old"]) == 1
            files[path] = files[path].replace(arguments["old"], arguments["new"])
        return files[path]

    calls, said = await run_to_end("edit a file", tool)
    assert [name for name, _ in calls] == ["write", "edit", "read"]
    assert files["notes.txt"].strip() in said


async def test_the_demo_model_starts_a_background_process_and_polls_it() -> None:
    started = "p1 running: for i in 1 2 3"
    calls, said = await run_to_end("start a background process", lambda *_: started)
    assert calls[0][1]["action"] == "start"
    assert calls[1] == ("process", {"action": "wait", "id": "p1", "timeout": 2})
    assert started in said


async def test_the_demo_model_reports_a_process_that_did_not_start() -> None:
    calls, said = await run_to_end("start a background process", lambda *_: "there is no sandbox")
    assert calls[1] == ("process", {"action": "list"})
    assert "there is no sandbox" in said


@pytest.mark.parametrize("text", ["long job", "please work for a while"])
async def test_the_long_job_continues_from_the_end_of_the_transcript(text: str) -> None:
    done: list[str] = []

    def tool(_: str, arguments: dict[str, Any]) -> str:
        done.append(arguments["command"])
        return f"step {len(done)} of 8"

    _, said = await run_to_end(text, tool)
    assert [f"step {n} of 8" in command for n, command in enumerate(done, 1)] == [True] * 8
    assert "step 8 of 8" in said


@pytest.mark.parametrize(
    "outcome", [ToolOutcome.UNKNOWN, ToolOutcome.CANCELLED, ToolOutcome.NOT_STARTED]
)
async def test_a_step_of_unknown_outcome_is_checked_before_it_is_repeated(
    outcome: ToolOutcome,
) -> None:
    """H2: an unknown outcome is checked before the call is repeated."""
    asked = UserMessage(text="long job")
    first = (await ask(request(asked))).message
    cut = ToolMessage(call_id=first.calls[0].id, name="terminal", text="?", outcome=outcome)
    again = (await ask(request(asked, first, cut))).message
    command = json.loads(again.calls[0].arguments)["command"]
    assert command.startswith("grep -x 'step 1 of 8' steps.log ||")


async def test_a_step_that_fails_ends_the_long_job() -> None:
    asked = UserMessage(text="long job")
    first = (await ask(request(asked))).message
    failed = ToolMessage(
        call_id=first.calls[0].id, name="terminal", text="no sandbox", outcome=ToolOutcome.ERROR
    )
    reply = (await ask(request(asked, first, failed))).message
    assert reply.calls == ()
    assert "no sandbox" in reply.text


async def test_the_demo_model_calls_only_available_tools() -> None:
    for text in ("run ls", "edit a file", "start a background process", "long job"):
        reply = (await ask(request(UserMessage(text=text), tools=()))).message
        assert reply.calls == ()
        assert "toolsets" in reply.text


async def test_without_a_terminal_the_demo_model_still_has_something_to_show() -> None:
    reply = (await ask(request(UserMessage(text="hello"), tools=("todo",)))).message
    assert "`make a plan`" in reply.text and "holdfast doctor" in reply.text
    assert "uname" not in reply.text
    made, said = await run_to_end("make a plan", tick_off, tools=("todo",))
    assert [name for name, _ in made] == ["todo"] * 4
    states = [[item["state"] for item in arguments["items"]] for _, arguments in made]
    assert states[0] == ["doing", "todo", "todo"] and states[-1] == ["done"] * 3
    assert "3 of 3 done" in said


def tick_off(name: str, arguments: dict[str, Any]) -> str:
    done = sum(item["state"] == "done" for item in arguments["items"])
    return f"{done} of {len(arguments['items'])} done"


async def test_call_ids_of_the_demo_model_are_positions_in_the_conversation() -> None:
    asked = request(UserMessage(text="run ls"))
    first, second = (await ask(asked)).message, (await ask(asked)).message
    assert first == second
    later = await ask(request(UserMessage(text="x"), first, UserMessage(text="run ls")))
    assert later.message.calls[0].id != first.calls[0].id


async def test_streaming_takes_less_than_a_second_however_long_the_text() -> None:
    waited: list[float] = []

    async def count(seconds: float) -> None:
        waited.append(seconds)

    stream = DemoModel(TARGET, sleep=count).stream(request(UserMessage(text="help")))
    assert [event async for event in stream]
    assert len(waited) > 20
    assert sum(waited) < 1


async def test_a_released_demo_ends_its_call() -> None:
    demo = DemoModel(TARGET, sleep=no_wait)
    stream = demo.stream(request(UserMessage(text="help")))
    await anext(stream)
    demo.release()
    with pytest.raises(ModelFailed):
        await anext(stream)
