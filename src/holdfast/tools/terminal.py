"""The terminal: runs a command in the session's shell."""

from typing import Annotated

import msgspec

from holdfast.core.errors import RunnerError
from holdfast.core.messages.message import ToolOutcome
from holdfast.core.ports.sandbox import CommandResult
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

    def __init__(self, *, limit: float) -> None:
        self._limit = limit

    def command(self, arguments: Arguments) -> str | None:
        wanted = arguments.get("command")
        return wanted if isinstance(wanted, str) else None

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        wanted = decode(TerminalArguments, arguments)
        limit = min(wanted.timeout or self._limit, self._limit)
        try:
            result = await context.sandbox.run(
                context.call_id, wanted.command, limit=limit, on_output=context.progress
            )
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return render_result(result)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        try:
            result = await context.sandbox.attach(context.call_id, on_output=context.progress)
        except RunnerError as error:
            raise ToolFailed(str(error)) from error
        return None if result is None else render_result(result)


def render_result(result: CommandResult) -> ToolOutput:
    """The output as it is, and a last line wherever that is not the whole story."""
    remark, outcome = _remark(result)
    body = result.output.rstrip("\n")
    text = "\n".join(filter(None, (body, remark)))
    return ToolOutput(text=text, outcome=outcome, exit_code=result.exit_code)


def _remark(result: CommandResult) -> tuple[str, ToolOutcome]:
    if result.lost:
        text = "[nobody knows how this command ended: check before you repeat it]"
        return text, ToolOutcome.UNKNOWN
    if result.cancelled:
        return "[cancelled: it was killed and may have had an effect]", ToolOutcome.CANCELLED
    if result.timed_out:
        text = f"[timed out after {result.seconds:.0f} s: killed with all it started]"
        return text, ToolOutcome.ERROR
    if result.exit_code:
        return f"[exit code {result.exit_code}]", ToolOutcome.OK
    if result.exit_code is None:
        return "[killed]", ToolOutcome.ERROR
    return ("" if result.output.strip() else "[no output]"), ToolOutcome.OK
