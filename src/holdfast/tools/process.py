"""The process tool: background processes of the session, started, watched and ended."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Literal

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.messages.message import Outcome
from holdfast.core.ports.sandbox import ProcessInfo, ProcessOutput
from holdfast.core.turns.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema

LONGEST_WAIT = 600.0
USUAL_WAIT = 30.0

Action = Literal["start", "list", "poll", "log", "wait", "write", "kill"]


class ProcessArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Action
    command: Annotated[str, msgspec.Meta(description="for start")] = ""
    id: str = ""
    text: Annotated[str, msgspec.Meta(description="for write; to stdin")] = ""
    eof: bool = False
    offset: Annotated[int, msgspec.Meta(description="for log; bytes")] | None = None
    timeout: Annotated[float, msgspec.Meta(description="for wait; seconds")] = USUAL_WAIT


WRITE_UNKNOWN = (
    "The gateway stopped while this was being written, and nobody knows whether it arrived. "
    "Look at the process before you write it again."
)


class Process:
    schema = make_schema(
        "process",
        "Background processes, which outlive this turn. poll: state and new output; "
        "log: output from offset, or its end.",
        ProcessArguments,
    )
    toolset = "terminal"
    replay = Replay.ATTACH
    danger = Danger.CONFINED

    def command(self, arguments: Arguments) -> str | None:
        wanted = arguments.get("command")
        starts = arguments.get("action") == "start" and isinstance(wanted, str)
        return wanted if starts else None

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        wanted = decode(ProcessArguments, arguments)
        if wanted.action == "start" and not wanted.command.strip():
            raise ToolFailed("start needs a command")
        if wanted.action not in ("start", "list") and not wanted.id:
            raise ToolFailed(f"{wanted.action} needs the id of a process; list names them")
        try:
            return ToolOutput(text=await _ACTIONS[wanted.action](context, wanted))
        except RunnerError as error:
            raise ToolFailed(str(error)) from error

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        """What only looks is done again; a start is looked up; what was written to a process
        and whether it arrived nobody knows."""
        wanted = decode(ProcessArguments, arguments)
        if wanted.action == "write":
            return ToolOutput(text=WRITE_UNKNOWN, outcome=Outcome.UNKNOWN)
        if wanted.action == "poll":
            # The poll that was cut may have taken the news with it: the log has them still.
            return await self.run(context, {"action": "log", "id": wanted.id})
        if wanted.action != "start":
            return await self.run(context, arguments)
        try:
            process = await context.bench.started_process(context.call_id)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return None if process is None else ToolOutput(text=_line(process))


async def _start(context: ToolContext, wanted: ProcessArguments) -> str:
    return _line(await context.bench.start_process(context.call_id, wanted.command))


async def _list(context: ToolContext, wanted: ProcessArguments) -> str:
    lines = [_line(process) for process in await context.bench.list_processes()]
    return "\n".join(lines) or "there are no processes"


async def _poll(context: ToolContext, wanted: ProcessArguments) -> str:
    return _news(await context.bench.poll_process(wanted.id))


async def _log(context: ToolContext, wanted: ProcessArguments) -> str:
    part = await context.bench.read_process_log(wanted.id, offset=wanted.offset)
    span = f"[bytes {part.offset} to {part.next} of {part.size}]"
    return "\n".join(filter(None, (_line(part.process), part.output.rstrip("\n"), span)))


async def _wait(context: ToolContext, wanted: ProcessArguments) -> str:
    limit = min(max(0.0, wanted.timeout), LONGEST_WAIT)
    return _news(await context.bench.wait_for_process(wanted.id, limit=limit))


async def _write(context: ToolContext, wanted: ProcessArguments) -> str:
    process = await context.bench.feed_process(wanted.id, wanted.text, eof=wanted.eof)
    return f"wrote {len(wanted.text)} characters to {process.id}"


async def _kill(context: ToolContext, wanted: ProcessArguments) -> str:
    return _line(await context.bench.kill_process(wanted.id))


_ACTIONS: Mapping[Action, Callable[[ToolContext, ProcessArguments], Awaitable[str]]] = {
    "start": _start,
    "list": _list,
    "poll": _poll,
    "log": _log,
    "wait": _wait,
    "write": _write,
    "kill": _kill,
}


def _line(process: ProcessInfo) -> str:
    state = "running" if process.running else "ended"
    if process.exit_code is not None:
        state = f"ended with exit code {process.exit_code}"
    elif process.note:
        state = f"ended ({process.note})"
    command = process.command if len(process.command) <= 80 else process.command[:79] + "…"
    return f"{process.id} {state}: {command}"


def _news(part: ProcessOutput) -> str:
    gap = f"[{part.skipped} bytes skipped; all output is in {part.path}]" if part.skipped else ""
    body = part.output.rstrip("\n") or "[no new output]"
    return "\n".join(filter(None, (_line(part.process), gap, body)))
