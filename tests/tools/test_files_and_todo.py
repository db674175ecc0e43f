"""The file tools and the todo list."""

import pytest
from tests.tools.tool_contexts import NewContext

from holdfast.core.ports.runtime import Tool
from holdfast.core.turns.tool import ToolFailed
from holdfast.tools.files import EditTool, FileSearchTool, ReadTool, WriteTool
from holdfast.tools.todo import TodoTool

read, write, edit, search, todo = ReadTool(), WriteTool(), EditTool(), FileSearchTool(), TodoTool()


async def test_write_read_edit_and_search_work_together(new_context: NewContext) -> None:
    async def do(tool: Tool, **arguments: object) -> str:
        return (await tool.run(new_context(), arguments)).text

    created = await do(write, path="a.txt", content="one\ntwo\nthree\n")
    assert created == "created /workspace/a.txt (14 bytes)"
    assert await do(read, path="a.txt") == "one\ntwo\nthree"
    assert await do(read, path="a.txt", offset=2, limit=1, numbers=True) == (
        "2\ttwo\n[lines 2 to 2 of 3]"
    )
    assert await do(edit, path="a.txt", old="two", new="2") == (
        "edited /workspace/a.txt: 1 replaced (line 2)"
    )
    assert await do(search, pattern="^2") == "a.txt:2: 2"
    assert await do(search, glob="*.md") == "nothing found"
    assert await do(write, path="a.txt", content="") == "replaced /workspace/a.txt (0 bytes)"
    assert await do(read, path="a.txt") == "[the file is empty]"


async def test_a_write_repeated_after_a_crash_is_the_same_write(new_context: NewContext) -> None:
    arguments = {"path": "a", "content": "x"}
    first = await write.run(new_context("c"), arguments)
    assert await write.run(new_context("c"), arguments) == first


async def test_an_edit_interrupted_by_a_crash_is_looked_up_and_not_repeated(
    new_context: NewContext,
) -> None:
    """H2: `attach`."""
    await write.run(new_context(), {"path": "a", "content": "x"})
    arguments = {"path": "a", "old": "x", "new": "xx"}
    first = await edit.run(new_context("c"), arguments)
    assert await edit.attach(new_context("c"), arguments) == first
    assert await edit.attach(new_context("other"), arguments) is None
    assert (await read.run(new_context(), {"path": "a"})).text == "xx"
    with pytest.raises(ToolFailed, match="does not occur"):
        await edit.run(new_context("d"), {"path": "a", "old": "y", "new": "z"})
    with pytest.raises(ToolFailed, match="does not occur"):
        await edit.attach(new_context("d"), {"path": "a", "old": "y", "new": "z"})


async def test_a_refusal_of_the_runner_reaches_the_model(new_context: NewContext) -> None:
    with pytest.raises(ToolFailed, match="no such file"):
        await read.run(new_context(), {"path": "missing"})


async def test_the_todo_list_is_what_the_call_says(new_context: NewContext) -> None:
    items = [{"text": "a", "state": "done"}, {"text": "b", "state": "doing"}, {"text": "c"}]
    output = await todo.run(new_context(), {"items": items})
    assert output.text == "[x] a\n[>] b\n[ ] c\n1 of 3 done"
    with pytest.raises(
        ToolFailed, match=r"Expected `str` of length >= 1 - at `\$.items\[0\].text`"
    ):
        await todo.run(new_context(), {"items": [{"text": ""}]})
