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
from holdfast.core.ids import CallId
from holdfast.core.messages.events import ToolEnded, ToolProgressed, ToolStarted
from holdfast.core.messages.transcript import CallRecovery, ToolCall, ToolMessage, ToolOutcome
from holdfast.core.ports.runtime import (
    CommandTool,
    FileTool,
    GuardedTool,
    InputTool,
    MessageTool,
    Tool,
)
from holdfast.core.turns.external import Effect, EffectKind, source_label
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)

log = logging.getLogger(__name__)

_MAX_CONCURRENT_CALLS = 8  # of one reply; the others start, and are recorded as started, later

OUTCOME_UNKNOWN = ToolOutput(
    text="The gateway stopped while this call ran, and its outcome is unknown. It may have had "
    "its effect: check before you repeat it.",
    outcome=ToolOutcome.UNKNOWN,
)


def calls_to_start(agent: Agent, turn: TurnPort, calls: Sequence[ToolCall]) -> list[CallId]:
    """The calls of a new reply that run first and need no permission check: their start can be
    recorded together with the reply."""
    tainted = turn.tainted
    batch = next(_batches(agent, turn, calls, tainted=tainted))
    pending = _pending_calls(agent, turn, batch, tainted=tainted)
    if turn.parking or (pending and not turn.may_run(pending[0])):
        return []
    return [call.id for call in batch]


async def run_calls(
    agent: Agent, turn: TurnPort, calls: Sequence[ToolCall], *, started: Sequence[CallId]
) -> None:
    """Run the calls in order; adjacent calls that only read run together, up to a limit. The start
    of the `started` ones is recorded already.

    The results of calls that run together are recorded as they arrive, so that a crash repeats none
    that is finished; the model gets them in the order of the calls (`project`).

    Raises `WaitingForApproval` before the first call that a person must allow, and `Parked` before
    the first that is left to a successor; the calls before it are done.
    """
    # As of now: the model wrote the reply before it saw what these calls return.
    tainted = turn.tainted
    for index, batch in enumerate(batches := list(_batches(agent, turn, calls, tainted=tainted))):
        if batch[0].id in started:
            await _run_batch(agent, turn, batch)
            continue
        if turn.parking:
            raise Parked
        if pending := _pending_calls(agent, turn, batch, tainted=tainted):
            following = chain.from_iterable(batches[index + 1 :])
            later = _pending_calls(agent, turn, following, tainted=tainted)
            if refusal := await turn.permit(pending[0], later):
                await _record_result(agent, turn, batch[0], refusal)
                continue
        if turn.parking:  # it may have been requested while the permission was checked
            raise Parked
        fresh = [call.id for call in batch if call.id not in turn.unresolved_calls]
        if fresh:
            await write_with_retry(partial(turn.record_calls_started, fresh), agent.session_id)
            turn.crash_hook(CrashPoint.CALL_STARTED)
        await _run_batch(agent, turn, batch)


async def _run_batch(agent: Agent, turn: TurnPort, calls: Sequence[ToolCall]) -> None:
    if len(calls) == 1:
        await _run_call(agent, turn, calls[0])
        return
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run_call(agent, turn, call))
    except ExceptionGroup as failed:
        # A failing tool still gives a result; only a result that could not be stored gets here.
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
        sources=output.sources,
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
        memory_owner=turn.memory_owner,
        call_id=call.id,
        sandbox=turn.sandbox,
        workspace=turn.workspace,
        delegation=turn.delegation,
        jobs=turn.jobs,
        sender=turn.sender,
        progress=lambda text: turn.emit(ToolProgressed(call.id, text)),
        may_contact=turn.may_contact if turn.tainted else None,
    )
    try:
        if call.id in turn.unresolved_calls and call.name not in agent.toolbox.by_name:
            return OUTCOME_UNKNOWN  # it ran while the tool existed; its effects remain
        tool, arguments = _decode_call(agent, call)
        if call.id in turn.unresolved_calls:
            output = await _recover_call(tool, context, arguments)
        else:
            output = await tool.run(context, arguments)
        if not output.sources and _returns_external_content(tool):
            label = source_label("tool", call.name)
            output = msgspec.structs.replace(output, sources=(label,))
        return output
    except ToolFailed as error:
        return ToolOutput(text=str(error), outcome=ToolOutcome.ERROR, sources=error.sources)
    except Exception as error:  # third-party code: its failure is the call's result
        about = {"action": "tool_failed", "session": turn.session_id, "turn": turn.turn_id}
        log.exception(
            "Tool %s failed in call %s; the model gets the error as its result",
            call.name,
            call.id,
            extra=about,
        )
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
        # The runner records a call before starting it, so a call that it does not know never
        # started.
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


def _pending_calls(
    agent: Agent, turn: TurnPort, calls: Iterable[ToolCall], *, tainted: bool
) -> list[PendingCall]:
    """The calls that would run a command, write to a chat, use a file or, if the conversation is
    tainted, have another effect that external content may have caused; not those that have
    started."""
    fresh = (call for call in calls if call.id not in turn.unresolved_calls)
    found = (_pending_call(agent, call, tainted=tainted) for call in fresh)
    return [pending for pending in found if pending is not None]


def _pending_call(agent: Agent, call: ToolCall, *, tainted: bool) -> PendingCall | None:
    tool = agent.toolbox.by_name.get(call.name)
    if tool is None or not (tainted or isinstance(tool, CommandTool | MessageTool | FileTool)):
        return None
    try:
        arguments = _decode_call(agent, call)[1]
    except ToolFailed:
        return None  # running it reports what is wrong with the arguments
    command, to, process, file = None, None, None, None
    if isinstance(tool, FileTool):
        file = tool.file_access(arguments)
        command = None if file is None else file.text
    elif isinstance(tool, InputTool) and (given := tool.process_input(arguments)) is not None:
        process, command = given
    elif isinstance(tool, CommandTool):
        command = tool.command(arguments)
    elif isinstance(tool, MessageTool):
        command, to = tool.message_text(arguments), tool.chat(arguments)
    effect = _effect(tool, call, arguments) if tainted else None
    runs_command = command is not None and to is None and file is None
    if command is None and effect is not None:
        command = effect.text
    if command is None:
        return None
    return PendingCall(
        call_id=call.id,
        tool=call.name,
        command=command,
        chat=to,
        process=process,
        file=file,
        effect=effect,
        runs_command=runs_command,
    )


def _effect(tool: Tool, call: ToolCall, arguments: Arguments) -> Effect | None:
    if isinstance(tool, GuardedTool):
        return tool.effect(arguments)
    if isinstance(tool, MessageTool) or tool.danger is not Danger.OUTSIDE:
        return None  # the gate knows which chat is another one
    text = f"{call.name} {call.arguments}"
    return Effect(kind=EffectKind.OUTSIDE, text=text, targets=(call.name,))


def _returns_external_content(tool: Tool) -> bool:
    """Whether all results of the tool count as external: it leaves the sandbox, and does not tell
    what it returns."""
    return tool.danger is Danger.OUTSIDE and not isinstance(tool, GuardedTool | MessageTool)


def _batches(
    agent: Agent, turn: TurnPort, calls: Iterable[ToolCall], *, tainted: bool
) -> Iterator[list[ToolCall]]:
    def is_read_only(call: ToolCall) -> bool:
        return _is_read_only(agent, turn, call, tainted=tainted)

    for reads, run in groupby(calls, key=is_read_only):
        batch = list(run)
        if reads:
            for first in range(0, len(batch), _MAX_CONCURRENT_CALLS):
                yield batch[first : first + _MAX_CONCURRENT_CALLS]
        else:
            yield from ([call] for call in batch)


def _is_read_only(agent: Agent, turn: TurnPort, call: ToolCall, *, tainted: bool) -> bool:
    tool = agent.toolbox.by_name.get(call.name)
    # What may have to wait for a person is a batch of its own: a tool that runs commands, the read
    # of a file that the rules about paths name, and an effect that external content may cause.
    if tool is None or tool.replay is not ReplayClass.SAFE or isinstance(tool, CommandTool):
        return False
    if not tainted and (not isinstance(tool, FileTool) or call.id in turn.unresolved_calls):
        return True
    pending = _pending_call(agent, call, tainted=tainted)
    if pending is None:
        return True
    if pending.effect is not None:
        return False
    return call.id in turn.unresolved_calls or turn.may_run(pending)
