"""The loop of a turn: resolve open calls, call the model, commit, run its tools, repeat.

The position in the turn is read from the buffer alone, so a turn that an earlier process began
continues through the same code.
"""

import logging
from collections.abc import Sequence

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import compact_if_needed
from holdfast.agent.tool_calls import calls_to_start, run_calls
from holdfast.agent.turn_port import Parked, TurnPort, write_with_retry
from holdfast.agent.vision import describe_images, strip_images
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import CallId
from holdfast.core.messages.events import (
    ReasoningStreamed,
    RetryScheduled,
    StepEnded,
    StreamVoided,
    TextStreamed,
)
from holdfast.core.messages.transcript import AssistantMessage, Message, NoteMessage
from holdfast.core.turns.model import (
    Completed,
    FallbackUsed,
    ModelEvent,
    ModelFailed,
    ModelFault,
    ModelRequest,
    ReasoningDelta,
    Retrying,
    TextDelta,
)
from holdfast.core.turns.projection import open_calls, project, trim_projection
from holdfast.core.turns.turn import Usage

log = logging.getLogger(__name__)

EMPTY_ANSWER = "(The model gave an empty answer.)"
STEP_BUDGET_NOTE = NoteMessage(
    text="[System note: the step budget of this turn is used up. Answer now, without tools: "
    "what was done, what is left, and how to continue.]"
)


class AgentNotLeased(RuntimeError):
    """An agent was run after `release_clients()`: a bug in the caller."""


async def run_turn(agent: Agent, turn: TurnPort) -> Completed:
    """Run the turn to its final reply, which is returned uncommitted: its commit ends the turn.

    Raises `ModelFailed` if the model failed for good, `StoreError` if a step cannot be stored (a
    full disk is waited for), and `Parked` at the first step boundary after a request to park. May
    be cancelled at any await.
    """
    replies = turn.earlier_replies
    started: Sequence[CallId] = ()
    while True:
        if calls := open_calls(agent.messages):
            await run_calls(agent, turn, calls, started=started)
        if turn.has_steers:
            await _take_steers(agent, turn)
        if turn.parking:
            raise Parked
        if not agent.accepts_images:
            await describe_images(agent, turn)
        last_chance = replies >= agent.max_steps
        completed = await ask_model(agent, turn, last_chance=last_chance)
        turn.crash_hook(CrashPoint.MODEL_REPLIED)
        if last_chance or not completed.message.calls:
            return _as_final_reply(completed)
        reply = _with_unique_call_ids(completed.message, f"{turn.turn_id}.{replies}")
        # One commit for both: the calls run once it is durable that they were requested and are
        # starting.
        started = calls_to_start(agent, turn, reply.calls)
        await _record_reply(agent, turn, reply, completed.usage, started)
        turn.crash_hook(CrashPoint.REPLY_COMMITTED)
        if started:
            turn.crash_hook(CrashPoint.CALL_STARTED)
        turn.emit(StepEnded(reply.text))
        replies += 1


async def _record_reply(
    agent: Agent,
    turn: TurnPort,
    reply: AssistantMessage,
    usage: Usage,
    started: Sequence[CallId],
) -> None:
    await write_with_retry(
        lambda: agent.append_durably(reply, turn.record_reply(reply, usage, started=started)),
        agent.session_id,
    )


async def _take_steers(agent: Agent, turn: TurnPort) -> None:
    async def take() -> None:
        """Take the next steer. A steer that the store refuses is the first in the queue again."""
        while steer := turn.next_steer():
            await agent.append_durably(*steer)

    await write_with_retry(take, agent.session_id)


def _as_final_reply(completed: Completed) -> Completed:
    message = completed.message
    if message.text and not message.calls:
        return completed
    text = message.text or EMPTY_ANSWER
    return Completed(msgspec.structs.replace(message, text=text, calls=()), completed.usage)


def _with_unique_call_ids(message: AssistantMessage, prefix: str) -> AssistantMessage:
    """Give the calls ids that are unique in the session.

    Providers reuse ids ("call_0" in every reply). Our ids identify a command in the runner's
    journal, where a reused id would be mistaken for the earlier call.
    """
    calls = tuple(
        msgspec.structs.replace(call, id=CallId(f"{prefix}.{number}"))
        for number, call in enumerate(message.calls)
    )
    return msgspec.structs.replace(message, calls=calls)


async def ask_model(agent: Agent, turn: TurnPort, *, last_chance: bool) -> Completed:
    """Request the model's next reply. If the provider refuses the conversation as too long, it is
    compacted once and the call repeated. Raises `ModelFailed`, and `Parked` before the call."""
    if agent.window.is_full or turn.parking:
        await _compact_or_park(agent, turn)
    try:
        return await _call_model(agent, turn, last_chance=last_chance, excess=agent.window.excess)
    except ModelFailed as failed:
        if failed.fault is not ModelFault.CONTEXT_TOO_LONG:
            raise
        turn.emit(StreamVoided(f"{failed} The earlier conversation is summarised"))
    agent.window.shrink()
    compacted = await _compact_or_park(agent, turn, force=True)
    excess = agent.window.excess if compacted else agent.window.used // 2
    return await _call_model(agent, turn, last_chance=last_chance, excess=excess)


async def _compact_or_park(agent: Agent, turn: TurnPort, *, force: bool = False) -> bool:
    compacted = await compact_if_needed(agent, turn, force=force)
    if turn.parking:  # requested during the compaction, which is durable
        raise Parked
    return compacted


async def _call_model(agent: Agent, turn: TurnPort, *, last_chance: bool, excess: int) -> Completed:
    if agent.client is None:
        raise AgentNotLeased(agent.session_id)
    request = ModelRequest(
        system=agent.prompt,
        messages=_request_messages(agent, last_chance=last_chance, excess=excess),
        tools=() if last_chance else agent.tools,
        reasoning=turn.reasoning,
    )
    turn.model_call_started()
    turn.crash_hook(CrashPoint.MODEL_CALLED)
    completed: Completed | None = None
    async for event in agent.client.stream(request):  # read to its end, so that it closes itself
        if isinstance(event, Completed):
            completed = event
        else:
            _emit_model_event(turn, event)
    assert completed is not None, "the port promises that a stream ends with Completed"
    turn.model_call_completed(completed)
    if not excess:
        agent.window.set_measured(completed.usage.input_tokens)
    return completed


def _request_messages(agent: Agent, *, last_chance: bool, excess: int) -> tuple[Message, ...]:
    messages = [*agent.messages, STEP_BUDGET_NOTE] if last_chance else agent.messages
    projected = project(messages, skipped=agent.window.skipped)
    if not agent.accepts_images:
        projected = tuple(strip_images(projected))
    if excess:
        log.warning(
            "The history of session %s is too long and could not be summarised: old tool "
            "results are left out of this request",
            agent.session_id,
            extra={"action": "old_results_omitted", "session": agent.session_id},
        )
        projected = trim_projection(projected, excess=excess)
    return agent.examples + projected


def _emit_model_event(turn: TurnPort, event: ModelEvent) -> None:
    match event:
        case TextDelta():
            turn.emit(TextStreamed(event.text))
        case ReasoningDelta():
            turn.emit(ReasoningStreamed(event.text))
        case Retrying():
            turn.emit(StreamVoided(event.why))
            turn.emit(RetryScheduled(event.fault, event.attempt + 1, event.attempts, event.delay))
        case FallbackUsed():
            turn.emit(StreamVoided(f"{event.why} {event.model} answers instead"))
            turn.model_fell_back(event)
