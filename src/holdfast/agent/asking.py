"""Asking the model: the request as a projection of the buffer, and the reply as it streams."""

import logging

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import compact_if_needed
from holdfast.agent.vision import strip_images
from holdfast.agent.work import Parked, TurnPort
from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.events import ReasoningStreamed, StreamVoided, TextStreamed
from holdfast.core.messages.message import Message, NoteMessage
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
from holdfast.core.turns.projection import project, trim_projection

log = logging.getLogger(__name__)

STEP_BUDGET_NOTE = NoteMessage(
    text="[System note: the step budget of this turn is used up. Answer now, without tools: "
    "what was done, what is left, and how to go on.]"
)


class AgentNotLeased(RuntimeError):
    """An agent was run after `release_clients()`: a bug of whoever leased it."""


async def ask_model(agent: Agent, turn: TurnPort, *, last_chance: bool) -> Completed:
    """The model's next reply. Where the provider finds the conversation too long, room is made
    once and it is asked again. Raises `ModelFailed`, and `Parked` before it is asked."""
    await _compact_or_park(agent, turn)
    try:
        return await _call_model(agent, turn, last_chance=last_chance, excess=agent.window.excess)
    except ModelFailed as failed:
        if failed.fault is not ModelFault.CONTEXT_TOO_LONG:
            raise
        turn.emit(StreamVoided(f"{failed} What was said before is summarised"))
    agent.window.shrink()
    made = await _compact_or_park(agent, turn, force=True)
    spare = agent.window.excess if made else agent.window.used // 2
    return await _call_model(agent, turn, last_chance=last_chance, excess=spare)


async def _compact_or_park(agent: Agent, turn: TurnPort, *, force: bool = False) -> bool:
    made = await compact_if_needed(agent, turn, force=force)
    if turn.parking:  # making room took its time, and is in the log
        raise Parked
    return made


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
    async for event in agent.client.stream(request):  # to its end, so that it closes by itself
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
            "The history of %s is too long and could not be summarised: old tool results are "
            "left out of this request.",
            agent.session_id,
            extra={"action": "old_results_omitted", "session": agent.session_id},
        )
        projected = trim_projection(projected, excess=excess)
    return projected


def _emit_model_event(turn: TurnPort, event: ModelEvent) -> None:
    match event:
        case TextDelta():
            turn.emit(TextStreamed(event.text))
        case ReasoningDelta():
            turn.emit(ReasoningStreamed(event.text))
        case Retrying():
            turn.emit(StreamVoided(event.why))
        case FallbackUsed():
            turn.emit(StreamVoided(f"{event.why} {event.model} answers instead"))
            turn.model_fell_back(event)
