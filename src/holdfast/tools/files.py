"""The tools `read`, `write`, `edit` and `search`, carried out by the session's runner."""

from typing import Annotated

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.ports.sandbox import FileEditResult
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    FileAccess,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema

DEFAULT_LINES = 1000


def _file_access(name: str, arguments: Arguments, *, writes: bool) -> FileAccess | None:
    """Shows the path, and then what would be written there."""
    path = arguments.get("path", ".")
    if not isinstance(path, str):
        return None
    changes = [arguments.get(field) for field in ("content", "old", "new")] if writes else []
    shown = [f"{name} {path}", *(text for text in changes if isinstance(text, str))]
    return FileAccess(path=path, writes=writes, text="\n".join(shown))


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    offset: Annotated[int, msgspec.Meta(ge=1, description="first line")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="lines")] = DEFAULT_LINES
    numbers: Annotated[bool, msgspec.Meta(description="number the lines")] = False


class ReadTool:
    schema = make_schema("read", "Read a text file.", ReadArguments)
    toolset = "files"
    replay = ReplayClass.SAFE
    danger = Danger.NONE

    def file_access(self, arguments: Arguments) -> FileAccess | None:
        return _file_access("read", arguments, writes=False)

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(ReadArguments, arguments)
        try:
            part = await context.sandbox.read_file(
                request.path, offset=request.offset, limit=request.limit
            )
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        text = part.text
        if request.numbers:
            lines = enumerate(text.split("\n"), start=part.first)
            text = "\n".join(f"{number}\t{line}" for number, line in lines)
        last = part.first + part.shown - 1
        if not part.total:
            text = "[the file is empty]"
        elif part.shown < part.total:
            text += f"\n[lines {part.first} to {last} of {part.total}]"
        return ToolOutput(text=text)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    content: str


class WriteTool:
    """A repeated request attaches: the runner does each call once."""

    schema = make_schema("write", "Create or replace a file, parents included.", WriteArguments)
    toolset = "files"
    replay = ReplayClass.ATTACH
    danger = Danger.NONE

    def file_access(self, arguments: Arguments) -> FileAccess | None:
        return _file_access("write", arguments, writes=True)

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(WriteArguments, arguments)
        try:
            done = await context.sandbox.write_file(context.call_id, request.path, request.content)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        verb = "replaced" if done.existed else "created"
        return ToolOutput(text=f"{verb} {done.path} ({done.bytes} bytes)")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    old: str
    new: str
    all: Annotated[bool, msgspec.Meta(description="every occurrence")] = False


class EditTool:
    schema = make_schema(
        "edit", "Replace the exact text `old`, which must occur once, by `new`.", EditArguments
    )
    toolset = "files"
    replay = ReplayClass.ATTACH
    danger = Danger.NONE

    def file_access(self, arguments: Arguments) -> FileAccess | None:
        return _file_access("edit", arguments, writes=True)

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(EditArguments, arguments)
        try:
            done = await context.sandbox.edit_file(
                context.call_id,
                request.path,
                old=request.old,
                new=request.new,
                everywhere=request.all,
            )
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return _edit_output(done)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        try:
            done = await context.sandbox.recorded_edit(context.call_id)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return None if done is None else _edit_output(done)


def _edit_output(done: FileEditResult) -> ToolOutput:
    lines = ", ".join(map(str, done.lines))
    return ToolOutput(text=f"edited {done.path}: {done.replaced} replaced (line {lines})")


class FileSearchArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[str, msgspec.Meta(description="regex; empty: list file names")] = ""
    path: str = "."
    glob: Annotated[str, msgspec.Meta(description="like *.py")] = ""


class FileSearchTool:
    schema = make_schema(
        "search", "Search file contents, or find files by name.", FileSearchArguments
    )
    toolset = "files"
    replay = ReplayClass.SAFE
    danger = Danger.NONE

    def file_access(self, arguments: Arguments) -> FileAccess | None:
        return _file_access("search", arguments, writes=False)

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(FileSearchArguments, arguments)
        try:
            found = await context.sandbox.search_files(
                request.pattern, path=request.path, glob=request.glob
            )
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        text = "\n".join(found.lines) or "nothing found"
        if found.more:
            text += "\n[more was found: narrow the search]"
        return ToolOutput(text=text)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)
