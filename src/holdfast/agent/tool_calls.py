"""Runs tool calls, each with its commits, and resolves calls of an earlier process."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.turn_port import Parked, PendingCall, TurnPort, write_with_retry
from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.events import ToolEnded, ToolProgressed, ToolStarted
from holdfast.core.messages.transcript import CallRecovery, ToolCall, ToolMessage, ToolOutcome
from holdfast.core.ports.runtime import CommandTool, MessageTool, Tool
from holdfast.core.turns.tool import Arguments, ReplayClass, ToolContext, ToolFailed, ToolOutput

log = logging.getLogger(__name__)

OUTCOME_UNKNOWN = ToolOutput(
    text="The gateway stopped while this call ran, and nobody knows how it ended. It may have had "
    "its effect: check before you repeat it.",
    outcome=ToolOutcome.UNKNOWN,
)


async def run_calls(agent: Agent, turn: TurnPort, calls: Sequence[ToolCall]) -> None:
    """Run the calls in order; neighbours that only read run together.

    Raises `Waiting` before the first that a person must allow, and `Parked` before the first
    that is a successor's; what stands before it is done.
    """
    for place, together in enumerate(batches := list(_batches(agent, calls))):
        if turn.parking:
            raise Parked
        if wishes := _pending_calls(agent, turn, together):
            later = _pending_calls(agent, turn, chain.from_iterable(batches[place + 1 :]))
            if refusal := await turn.permit(wishes[0], later):
                await _record_result(agent, turn, together[0], refusal)
                continue
        if turn.parking:  # whoever allows a call may have taken their time
            raise Parked
        fresh = [call.id for call in together if call.id not in turn.unresolved_calls]
        if fresh:
            await write_with_retry(partial(turn.record_calls_started, fresh), agent.session_id)
            turn.crash_hook(CrashPoint.CALL_STARTED)
        await _run_batch(agent, turn, together)


async def _run_batch(agent: Agent, turn: TurnPort, calls: Sequence[ToolCall]) -> None:
    if len(calls) == 1:
        await _run_call(agent, turn, calls[0])
        return
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run_call(agent, turn, call))
    except ExceptionGroup as failed:
        # A tool's fault is its result, so this is what kept a result from the log: the turn's.
        raise failed.exceptions[0] from failed


async def _run_call(agent: Agent, turn: TurnPort, call: ToolCall) -> None:
    turn.emit(ToolStarted(call.id, call.name, call.arguments))
    output = await _call_output(agent, turn, call)
    turn.crash_hook(CrashPoint.CALL_RETURNED)
    await _record_result(agent, turn, call, output)


async def _record_result(agent: Agent, turn: TurnPort, call: ToolCall, output: ToolOutput) -> None:
    text = turn.redact(output.text)
    result = ToolMessage(
        call_id=call.id,
        name=call.name,
        text=text,
        outcome=output.outcome,
        images=output.images,
        recovery=output.recovery,
        exit_code=output.exit_code,
    )
    await write_with_retry(
        lambda: agent.append_durably(result, turn.record_call_result(result)), agent.session_id
    )
    turn.crash_hook(CrashPoint.CALL_FINISHED)
    turn.emit(ToolEnded(call.id, call.name, result.outcome, result.text))


async def _call_output(agent: Agent, turn: TurnPort, call: ToolCall) -> ToolOutput:
    context = ToolContext(
        session_id=turn.session_id,
        principal=turn.principal,
        call_id=call.id,
        sandbox=turn.sandbox,
        workspace=turn.workspace,
        delegation=turn.delegation,
        jobs=turn.jobs,
        sender=turn.sender,
        progress=lambda text: turn.emit(ToolProgressed(call.id, text)),
    )
    try:
        if call.id in turn.unresolved_calls and call.name not in agent.toolbox.by_name:
            return OUTCOME_UNKNOWN  # it ran while it was there; that it is gone undoes nothing
        tool, arguments = _decode_call(agent, call)
        if call.id in turn.unresolved_calls:
            return await _recover_call(tool, context, arguments)
        return await tool.run(context, arguments)
    except ToolFailed as error:
        return ToolOutput(text=str(error), outcome=ToolOutcome.ERROR)
    except Exception as error:  # a tool may be anyone's code: its fault is the call's result
        about = {"action": "tool_failed", "session": turn.session_id, "turn": turn.turn_id}
        log.exception("The tool %s failed.", call.name, extra=about)
        text = f"{call.name} failed: {type(error).__name__}: {error}"
        return ToolOutput(text=text, outcome=ToolOutcome.ERROR)


async def _recover_call(tool: Tool, context: ToolContext, arguments: Arguments) -> ToolOutput:
    """The result of a call that an earlier process started."""
    if tool.replay is ReplayClass.NEVER:
        return OUTCOME_UNKNOWN
    if tool.replay is ReplayClass.ATTACH:
        attached = await tool.attach(context, arguments)
        if attached is not None:
            return msgspec.structs.replace(attached, recovery=CallRecovery.ATTACHED)
        # The runner writes a call down before it begins it, so one it never heard of never began.
    output = await tool.run(context, arguments)
    return msgspec.structs.replace(output, recovery=CallRecovery.REPLAYED)


def _decode_call(agent: Agent, call: ToolCall) -> tuple[Tool, Arguments]:
    tool = agent.toolbox.find(call.name)
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError as error:
        raise ToolFailed(f"The arguments are not valid JSON ({error}). Send them again.") from error
    if not isinstance(arguments, dict):
        raise ToolFailed("The arguments must be a JSON object.")
    return tool, arguments


def _pending_calls(agent: Agent, turn: TurnPort, calls: Iterable[ToolCall]) -> list[PendingCall]:
    """Those of the calls that would run a command or speak to a chat, and have not begun to."""
    fresh = (call for call in calls if call.id not in turn.unresolved_calls)
    return [wish for call in fresh if (wish := _pending_call(agent, call)) is not None]


def _pending_call(agent: Agent, call: ToolCall) -> PendingCall | None:
    tool = agent.toolbox.by_name.get(call.name)
    if not isinstance(tool, CommandTool | MessageTool):
        return None
    try:
        arguments = _decode_call(agent, call)[1]
    except ToolFailed:
        return None  # running it says what is wrong with the arguments
    if isinstance(tool, CommandTool):
        command, to = tool.command(arguments), None
    else:
        command, to = tool.message_text(arguments), tool.chat(arguments)
    if command is None:
        return None
    return PendingCall(call_id=call.id, tool=call.name, command=command, chat=to)


def _batches(agent: Agent, calls: Iterable[ToolCall]) -> Iterator[list[ToolCall]]:
    for reads, run in groupby(calls, key=lambda call: _is_read_only(agent, call)):
        together = list(run)
        if reads:
            yield together
        else:
            yield from ([call] for call in together)


def _is_read_only(agent: Agent, call: ToolCall) -> bool:
    tool = agent.toolbox.by_name.get(call.name)
    # One that runs commands stands alone: it may have to wait for a person.
    return (
        tool is not None and tool.replay is ReplayClass.SAFE and not isinstance(tool, CommandTool)
    )
