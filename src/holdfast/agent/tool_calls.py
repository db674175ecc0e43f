"""Tool calls: started, run and finished, each with its commit; those of an earlier process
settled by their replay class."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.keeping import until_kept
from holdfast.agent.work import Parked, Wish, Work
from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.events import ToolBegan, ToolEnded, ToolProgressed
from holdfast.core.messages.message import Outcome, TakenUp, ToolCall, ToolMessage
from holdfast.core.ports.protocols import Addressed, Commanding, Tool
from holdfast.core.turns.tool import Arguments, Replay, ToolContext, ToolFailed, ToolOutput

log = logging.getLogger(__name__)

NOBODY_KNOWS = ToolOutput(
    text="The gateway stopped while this call ran, and nobody knows how it ended. It may have had "
    "its effect: check before you repeat it.",
    outcome=Outcome.UNKNOWN,
)


async def run_calls(agent: Agent, work: Work, calls: Sequence[ToolCall]) -> None:
    """Run the calls in order; neighbours that only read run together.

    Raises `Waiting` before the first that a person must allow, and `Parked` before the first
    that is a successor's; what stands before it is done.
    """
    for place, together in enumerate(batches := list(_batches(agent, calls))):
        if work.parking:
            raise Parked
        if wishes := _wishes(agent, work, together):
            later = _wishes(agent, work, chain.from_iterable(batches[place + 1 :]))
            if refusal := await work.permit(wishes[0], later):
                await _finish(agent, work, together[0], refusal)
                continue
        if work.parking:  # whoever allows a call may have taken their time
            raise Parked
        fresh = [call.id for call in together if call.id not in work.unsettled]
        if fresh:
            await until_kept(partial(work.calling, fresh), agent.session_id)
            work.crash(CrashPoint.CALL_STARTED)
        await _run_together(agent, work, together)


async def _run_together(agent: Agent, work: Work, calls: Sequence[ToolCall]) -> None:
    if len(calls) == 1:
        await _run(agent, work, calls[0])
        return
    try:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(_run(agent, work, call))
    except ExceptionGroup as failed:
        # A tool's fault is its result, so this is what kept a result from the log: the turn's.
        raise failed.exceptions[0] from failed


async def _run(agent: Agent, work: Work, call: ToolCall) -> None:
    work.emit(ToolBegan(call.id, call.name, call.arguments))
    output = await _output(agent, work, call)
    work.crash(CrashPoint.CALL_RETURNED)
    await _finish(agent, work, call, output)


async def _finish(agent: Agent, work: Work, call: ToolCall, output: ToolOutput) -> None:
    text = work.redact(output.text)
    result = ToolMessage(
        call_id=call.id,
        name=call.name,
        text=text,
        outcome=output.outcome,
        images=output.images,
        taken_up=output.taken_up,
        exit_code=output.exit_code,
    )
    await until_kept(lambda: agent.keep(result, work.called(result)), agent.session_id)
    work.crash(CrashPoint.CALL_FINISHED)
    work.emit(ToolEnded(call.id, call.name, result.outcome, result.text))


async def _output(agent: Agent, work: Work, call: ToolCall) -> ToolOutput:
    context = ToolContext(
        session_id=work.session_id,
        principal=work.principal,
        call_id=call.id,
        bench=work.bench,
        workspace=work.workspace,
        delegation=work.delegation,
        scheduling=work.scheduling,
        handing=work.handing,
        progress=lambda text: work.emit(ToolProgressed(call.id, text)),
    )
    try:
        if call.id in work.unsettled and call.name not in agent.toolbox.by_name:
            return NOBODY_KNOWS  # it ran while it was there; that it is gone undoes nothing
        tool, arguments = _understand(agent, call)
        if call.id in work.unsettled:
            return await _settle(tool, context, arguments)
        return await tool.run(context, arguments)
    except ToolFailed as error:
        return ToolOutput(text=str(error), outcome=Outcome.ERROR)
    except Exception as error:  # a tool may be anyone's code: its fault is the call's result
        about = {"action": "tool_failed", "session": work.session_id, "turn": work.turn_id}
        log.exception("The tool %s failed.", call.name, extra=about)
        text = f"{call.name} failed: {type(error).__name__}: {error}"
        return ToolOutput(text=text, outcome=Outcome.ERROR)


async def _settle(tool: Tool, context: ToolContext, arguments: Arguments) -> ToolOutput:
    """The result of a call that an earlier process started."""
    if tool.replay is Replay.NEVER:
        return NOBODY_KNOWS
    if tool.replay is Replay.ATTACH:
        attached = await tool.attach(context, arguments)
        if attached is not None:
            return msgspec.structs.replace(attached, taken_up=TakenUp.ATTACHED)
        # The runner writes a call down before it begins it, so one it never heard of never began.
    output = await tool.run(context, arguments)
    return msgspec.structs.replace(output, taken_up=TakenUp.REPLAYED)


def _understand(agent: Agent, call: ToolCall) -> tuple[Tool, Arguments]:
    tool = agent.toolbox.find(call.name)
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except msgspec.DecodeError as error:
        raise ToolFailed(f"The arguments are not valid JSON ({error}). Send them again.") from error
    if not isinstance(arguments, dict):
        raise ToolFailed("The arguments must be a JSON object.")
    return tool, arguments


def _wishes(agent: Agent, work: Work, calls: Iterable[ToolCall]) -> list[Wish]:
    """Those of the calls that would run a command or speak to a chat, and have not begun to."""
    fresh = (call for call in calls if call.id not in work.unsettled)
    return [wish for call in fresh if (wish := _wish(agent, call)) is not None]


def _wish(agent: Agent, call: ToolCall) -> Wish | None:
    tool = agent.toolbox.by_name.get(call.name)
    if not isinstance(tool, Commanding | Addressed):
        return None
    try:
        arguments = _understand(agent, call)[1]
    except ToolFailed:
        return None  # running it says what is wrong with the arguments
    if isinstance(tool, Commanding):
        command, to = tool.command(arguments), None
    else:
        command, to = tool.words(arguments), tool.chat(arguments)
    if command is None:
        return None
    return Wish(call_id=call.id, tool=call.name, command=command, to=to)


def _batches(agent: Agent, calls: Iterable[ToolCall]) -> Iterator[list[ToolCall]]:
    for reads, run in groupby(calls, key=lambda call: _only_reads(agent, call)):
        together = list(run)
        if reads:
            yield together
        else:
            yield from ([call] for call in together)


def _only_reads(agent: Agent, call: ToolCall) -> bool:
    tool = agent.toolbox.by_name.get(call.name)
    # One that runs commands stands alone: it may have to wait for a person.
    return tool is not None and tool.replay is Replay.SAFE and not isinstance(tool, Commanding)
