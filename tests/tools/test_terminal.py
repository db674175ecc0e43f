"""The terminal and process tools, over a real runner."""

import asyncio
from pathlib import Path

import pytest
from tests.support.held_command import HELD_COMMAND, release
from tests.tools.tool_contexts import NewContext

from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.turns.tool import ToolFailed
from holdfast.system.paths import Paths
from holdfast.tools.terminal import ProcessTool, TerminalTool

terminal = TerminalTool(limit=20)
process = ProcessTool()


@pytest.mark.parametrize(
    ("command", "text", "outcome"),
    [
        ("echo hi", "hi", ToolOutcome.OK),
        ("true", "[no output]", ToolOutcome.OK),
        ("echo no >&2; exit 3", "no\n[exit code 3]", ToolOutcome.ERROR),
    ],
)
async def test_a_command_returns_its_output_and_exit_code(
    new_context: NewContext, command: str, text: str, outcome: ToolOutcome
) -> None:
    output = await terminal.run(new_context(), {"command": command})
    assert (output.text, output.outcome) == (text, outcome)


async def test_a_command_that_takes_too_long_is_an_error_that_says_so(
    new_context: NewContext,
) -> None:
    await terminal.run(new_context(), {"command": "true"})  # its shell is there from now on
    output = await terminal.run(new_context(), {"command": "echo a; sleep 60", "timeout": "2"})
    assert output.outcome is ToolOutcome.ERROR
    assert output.text == "a\n[timed out after 2 s: killed with all it started]"


async def test_no_command_may_take_longer_than_the_configured_limit(
    new_context: NewContext,
) -> None:
    output = await TerminalTool(limit=0.2).run(
        new_context(), {"command": "sleep 60", "timeout": 900}
    )
    assert "timed out" in output.text


async def test_progress_is_reported_while_the_command_runs(
    new_context: NewContext, tmp_path: Path
) -> None:
    progress: list[str] = []

    def on_progress(text: str) -> None:
        progress.append(text)
        release(Paths(tmp_path), "s_1")

    await terminal.run(
        new_context(progress=on_progress), {"command": f"echo a; {HELD_COMMAND}; echo b"}
    )
    assert progress == ["a\n", "b\n"]


async def test_a_call_of_an_earlier_process_is_attached_to(new_context: NewContext) -> None:
    """H2: `attach` gives the recorded result, and None for a call that is unknown."""
    arguments = {"command": "echo once >>log; cat log; exit 2"}
    first = await terminal.run(new_context("c"), arguments)
    assert await terminal.attach(new_context("c"), arguments) == first
    assert await terminal.run(new_context("c"), arguments) == first
    assert first.text == "once\n[exit code 2]"
    assert await terminal.attach(new_context("other"), arguments) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "missing required field `command`"),
        ({"command": 5}, "Expected `str`"),
        ({"cmd": "ls", "command": "ls"}, "unknown field `cmd`. They are: command, timeout?"),
        ({"command": "ls", "timeout": -1}, "timeout"),
    ],
)
async def test_wrong_arguments_are_explained_to_the_model(
    new_context: NewContext, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises(ToolFailed) as failed:
        await terminal.run(new_context(), arguments)
    assert says in str(failed.value)


async def test_a_process_is_started_watched_fed_and_killed(new_context: NewContext) -> None:
    async def do(**arguments: object) -> str:
        return (await process.run(new_context(), arguments)).text

    assert await do(action="list") == "there are no processes"
    assert await do(action="start", command="read x; echo got $x; read y") == (
        "p1 running: read x; echo got $x; read y"
    )
    assert await do(action="write", id="p1", text="five\n") == "wrote 5 characters to p1"
    assert "p1 running" in await do(action="wait", id="p1", timeout=0.1)
    async with asyncio.timeout(30):  # it answers when it can
        while not (await do(action="log", id="p1")).endswith("got five\n[bytes 0 to 9 of 9]"):
            await asyncio.sleep(0.02)
    assert await do(action="kill", id="p1") == "p1 ended (killed): read x; echo got $x; read y"
    assert "[no new output]" in await do(action="poll", id="p1")
    await do(action="start", command="exit 3")
    assert "p2 ended with exit code 3" in await do(action="wait", id="p2")
    assert len((await do(action="list")).splitlines()) == 2


@pytest.mark.parametrize("action", ["poll", "log", "wait", "kill"])
@pytest.mark.parametrize(("code", "outcome"), [(0, ToolOutcome.OK), (3, ToolOutcome.ERROR)])
async def test_the_end_of_a_process_has_the_exit_code_and_outcome_of_a_command(
    new_context: NewContext, action: str, code: int, outcome: ToolOutcome
) -> None:
    command = f"read x; exit {code}"
    await process.run(new_context(), {"action": "start", "command": command})
    running = await process.run(new_context(), {"action": "poll", "id": "p1"})
    assert (running.exit_code, running.outcome) == (None, ToolOutcome.OK)
    await process.run(new_context(), {"action": "write", "id": "p1", "text": "go\n"})
    await process.run(new_context(), {"action": "wait", "id": "p1"})
    ended = await process.run(new_context(), {"action": action, "id": "p1"})
    assert (ended.exit_code, ended.outcome) == (code, outcome), ended.text


async def test_a_start_is_repeated_without_a_second_process(new_context: NewContext) -> None:
    """H2: started and never recorded, its process is found by the call."""
    arguments = {"action": "start", "command": "sleep 50"}
    first = await process.run(new_context("c"), arguments)
    assert await process.attach(new_context("c"), arguments) == first
    assert await process.attach(new_context("other"), arguments) is None
    listed = await process.attach(new_context(), {"action": "list"})
    assert listed is not None and "p1" in listed.text
    written = await process.attach(new_context(), {"action": "write", "id": "p1"})
    assert written is not None and written.outcome is ToolOutcome.UNKNOWN


async def test_an_action_without_its_arguments_is_refused_with_a_reason(
    new_context: NewContext,
) -> None:
    with pytest.raises(ToolFailed, match="start needs a command"):
        await process.run(new_context(), {"action": "start"})
    with pytest.raises(ToolFailed, match="poll needs the id"):
        await process.run(new_context(), {"action": "poll"})
    with pytest.raises(ToolFailed, match="no process 'p7'"):
        await process.run(new_context(), {"action": "poll", "id": "p7"})
    with pytest.raises(ToolFailed, match="Invalid enum value 'stop'"):
        await process.run(new_context(), {"action": "stop"})
