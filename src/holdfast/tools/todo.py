"""The tool `todo`: a list that is stored in the transcript only, so that it survives a restart
with it."""

from typing import Annotated, Literal

import msgspec

from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.tools.arguments import decode, make_schema

STATE_MARKS = {"todo": "[ ]", "doing": "[>]", "done": "[x]"}


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1)]
    state: Literal["todo", "doing", "done"] = "todo"


class TodoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[tuple[TodoItem, ...], msgspec.Meta(max_length=100)]


class TodoTool:
    schema = make_schema(
        "todo", "Keep a plan of many steps: give the whole list each time.", TodoArguments
    )
    toolset = "todo"
    replay = ReplayClass.SAFE
    danger = Danger.NONE

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        items = decode(TodoArguments, arguments).items
        done = sum(item.state == "done" for item in items)
        lines = [f"{STATE_MARKS[item.state]} {item.text}" for item in items]
        return ToolOutput(text="\n".join([*lines, f"{done} of {len(items)} done"]))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)
