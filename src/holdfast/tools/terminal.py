"""The tools `terminal` and `process`: commands in the session's shell, and background processes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Literal

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.ports.sandbox import CommandResult, ProcessInfo, ProcessOutput
from holdfast.core.turns.external import CommandNetwork, Effect, EffectKind, command_labels
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema


class TerminalArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: str
    timeout: Annotated[float, msgspec.Meta(gt=0, description="seconds")] | None = None


class TerminalTool:
    """`limit` is the longest a command may take, in seconds, and its default."""

    schema = make_schema(
        "terminal",
        "Run a bash command. The working directory and exported variables persist between "
        "calls. No stdin. For servers and long jobs use process.",
        TerminalArguments,
    )
    toolset = "terminal"
    replay = ReplayClass.ATTACH
    danger = Danger.CONFINED

    def __init__(self, *, limit: float, network: CommandNetwork | None = None) -> None:
        self._limit = limit
        self._network = network  # None: commands have no network

    def command(self, arguments: Arguments) -> str | None:
        command = arguments.get("command")
        return command if isinstance(command, str) else None

    def effect(self, arguments: Arguments) -> Effect | None:
        return _network_effect(self._network, self.command(arguments))

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(TerminalArguments, arguments)
        limit = min(request.timeout or self._limit, self._limit)
        try:
            result = await context.sandbox.run(
                context.call_id, request.command, limit=limit, on_output=context.progress
            )
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return self._output(result, arguments)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        try:
            result = await context.sandbox.attach(context.call_id, on_output=context.progress)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return None if result is None else self._output(result, arguments)

    def _output(self, result: CommandResult, arguments: Arguments) -> ToolOutput:
        sources = _network_sources(self._network, self.command(arguments))
        return msgspec.structs.replace(render_result(result), sources=sources)


def _network_effect(network: CommandNetwork | None, command: str | None) -> Effect | None:
    use = None if network is None or command is None else network.analyse(command)
    if use is None:
        return None
    return Effect(
        kind=EffectKind.CONTACT, text=command or "", targets=use.hosts, complete=use.complete
    )


def _network_sources(network: CommandNetwork | None, command: str | None) -> tuple[str, ...]:
    use = None if network is None or command is None else network.analyse(command)
    return () if use is None else command_labels(use)


def render_result(result: CommandResult) -> ToolOutput:
    """The output, and a last line with what it does not show, such as the exit code."""
    remark, outcome = _remark(result)
    body = result.output.rstrip("\n")
    text = "\n".join(filter(None, (body, remark)))
    return ToolOutput(text=text, outcome=outcome, exit_code=result.exit_code)


def _remark(result: CommandResult) -> tuple[str, ToolOutcome]:
    if result.lost:
        text = "[the result of this command is unknown: check before you repeat it]"
        return text, ToolOutcome.UNKNOWN
    if result.cancelled:
        return "[cancelled: it was killed and may have had an effect]", ToolOutcome.CANCELLED
    if result.timed_out:
        text = f"[timed out after {result.seconds:.0f} s: killed with all it started]"
        return text, ToolOutcome.ERROR
    if result.exit_code:
        return f"[exit code {result.exit_code}]", ToolOutcome.ERROR
    if result.exit_code is None:
        return "[killed]", ToolOutcome.ERROR
    return ("" if result.output.strip() else "[no output]"), ToolOutcome.OK


MAX_WAIT = 600.0
DEFAULT_WAIT = 30.0

ProcessAction = Literal["start", "list", "poll", "log", "wait", "write", "kill"]


class ProcessArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: ProcessAction
    command: Annotated[str, msgspec.Meta(description="for start")] = ""
    id: str = ""
    text: Annotated[str, msgspec.Meta(description="for write; to stdin")] = ""
    eof: bool = False
    offset: Annotated[int, msgspec.Meta(description="for log; bytes")] | None = None
    timeout: Annotated[float, msgspec.Meta(description="for wait; seconds")] = DEFAULT_WAIT


WRITE_OUTCOME_UNKNOWN = (
    "The gateway stopped while this was being written; it is unknown whether it arrived. "
    "Look at the process before you write it again."
)


class ProcessTool:
    schema = make_schema(
        "process",
        "Background processes, which outlive this turn. poll: state and new output; "
        "log: output from offset, or its end.",
        ProcessArguments,
    )
    toolset = "terminal"
    replay = ReplayClass.ATTACH
    danger = Danger.CONFINED

    def __init__(self, *, network: CommandNetwork | None = None) -> None:
        self._network = network  # None: processes have no network

    def command(self, arguments: Arguments) -> str | None:
        command = arguments.get("command")
        starts = arguments.get("action") == "start" and isinstance(command, str)
        return command if starts else None

    def process_input(self, arguments: Arguments) -> tuple[str, str] | None:
        text, process = arguments.get("text"), arguments.get("id")
        if arguments.get("action") != "write":
            return None
        return (process, text) if isinstance(process, str) and isinstance(text, str) else None

    def effect(self, arguments: Arguments) -> Effect | None:
        """Also of a text that is written to a process, which may be a shell."""
        text = arguments.get("text") if arguments.get("action") == "write" else None
        given = text if isinstance(text, str) else self.command(arguments)
        return _network_effect(self._network, given)

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request = decode(ProcessArguments, arguments)
        if request.action == "start" and not request.command.strip():
            raise ToolFailed("start needs a command")
        if request.action not in ("start", "list") and not request.id:
            raise ToolFailed(f"{request.action} needs the id of a process; list names them")
        try:
            text, shown = await _ACTIONS[request.action](context, request)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        if shown is None:
            return ToolOutput(text=text)
        # A kill shows no output.
        command = None if request.action == "kill" else shown.command
        sources = _network_sources(self._network, command)
        return ToolOutput(
            text=text,
            outcome=ToolOutcome.ERROR if shown.exit_code else ToolOutcome.OK,
            exit_code=shown.exit_code,
            sources=sources,
        )

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        """Reading actions run again; a start is looked up; the outcome of a write is unknown."""
        request = decode(ProcessArguments, arguments)
        if request.action == "write":
            return ToolOutput(text=WRITE_OUTCOME_UNKNOWN, outcome=ToolOutcome.UNKNOWN)
        if request.action == "poll":
            # The interrupted poll may have consumed the new output: the log still has it.
            return await self.run(context, {"action": "log", "id": request.id})
        if request.action != "start":
            return await self.run(context, arguments)
        try:
            process = await context.sandbox.started_process(context.call_id)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return None if process is None else ToolOutput(text=_process_line(process))


# Each returns its text, and the process whose output or end it reports.
_ActionResult = tuple[str, ProcessInfo | None]


async def _start(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    started = await context.sandbox.start_process(context.call_id, request.command)
    return _process_line(started), None


async def _list(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    lines = [_process_line(process) for process in await context.sandbox.list_processes()]
    return "\n".join(lines) or "there are no processes", None


async def _poll(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    part = await context.sandbox.poll_process(request.id)
    return _output_text(part), part.process


async def _log(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    part = await context.sandbox.read_process_log(request.id, offset=request.offset)
    span = f"[bytes {part.offset} to {part.next} of {part.size}]"
    lines = (_process_line(part.process), part.output.rstrip("\n"), span)
    return "\n".join(filter(None, lines)), part.process


async def _wait(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    limit = min(max(0.0, request.timeout), MAX_WAIT)
    part = await context.sandbox.wait_for_process(request.id, limit=limit)
    return _output_text(part), part.process


async def _write(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    process = await context.sandbox.feed_process(request.id, request.text, eof=request.eof)
    return f"wrote {len(request.text)} characters to {process.id}", None


async def _kill(context: ToolContext, request: ProcessArguments) -> _ActionResult:
    killed = await context.sandbox.kill_process(request.id)
    return _process_line(killed), killed


_ACTIONS: Mapping[
    ProcessAction, Callable[[ToolContext, ProcessArguments], Awaitable[_ActionResult]]
] = {
    "start": _start,
    "list": _list,
    "poll": _poll,
    "log": _log,
    "wait": _wait,
    "write": _write,
    "kill": _kill,
}


def _process_line(process: ProcessInfo) -> str:
    state = "running" if process.running else "ended"
    if process.exit_code is not None:
        state = f"ended with exit code {process.exit_code}"
    elif process.note:
        state = f"ended ({process.note})"
    command = process.command if len(process.command) <= 80 else process.command[:79] + "…"
    return f"{process.id} {state}: {command}"


def _output_text(part: ProcessOutput) -> str:
    gap = f"[{part.skipped} bytes skipped; all output is in {part.path}]" if part.skipped else ""
    body = part.output.rstrip("\n") or "[no new output]"
    return "\n".join(filter(None, (_process_line(part.process), gap, body)))
