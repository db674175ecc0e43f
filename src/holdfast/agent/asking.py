"""Asking the model: the request as a projection of the buffer, and the reply as it streams."""

import logging

from holdfast.agent.agent import Agent
from holdfast.agent.compaction import make_room
from holdfast.agent.vision import without_pictures
from holdfast.agent.work import Parked, Work
from holdfast.core.crash_points import CrashPoint
from holdfast.core.messages.events import ReasoningStreamed, StreamVoided, TextStreamed
from holdfast.core.messages.message import Message, NoteMessage
from holdfast.core.turns.model import (
    Completed,
    Fault,
    FellBack,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    ReasoningDelta,
    Retrying,
    TextDelta,
)
from holdfast.core.turns.projection import lightened, project

log = logging.getLogger(__name__)

BUDGET_USED = NoteMessage(
    text="[System note: the step budget of this turn is used up. Answer now, without tools: "
    "what was done, what is left, and how to go on.]"
)


class Unleased(RuntimeError):
    """An agent was run after `release_clients()`: a bug of whoever leased it."""


async def ask(agent: Agent, work: Work, *, last_chance: bool) -> Completed:
    """The model's next reply. Where the provider finds the conversation too long, room is made
    once and it is asked again. Raises `ModelFailed`, and `Parked` before it is asked."""
    await _make_room(agent, work)
    try:
        return await _call(agent, work, last_chance=last_chance, spare=agent.context.excess)
    except ModelFailed as failed:
        if failed.fault is not Fault.CONTEXT_TOO_LONG:
            raise
        work.emit(StreamVoided(f"{failed} What was said before is summarised"))
    agent.context.was_too_long()
    made = await _make_room(agent, work, must=True)
    spare = agent.context.excess if made else agent.context.used // 2
    return await _call(agent, work, last_chance=last_chance, spare=spare)


async def _make_room(agent: Agent, work: Work, *, must: bool = False) -> bool:
    made = await make_room(agent, work, must=must)
    if work.parking:  # making room took its time, and is in the log
        raise Parked
    return made


async def _call(agent: Agent, work: Work, *, last_chance: bool, spare: int) -> Completed:
    if agent.client is None:
        raise Unleased(agent.session_id)
    request = ModelRequest(
        system=agent.prompt,
        messages=_shown(agent, last_chance=last_chance, spare=spare),
        tools=() if last_chance else agent.tools,
        reasoning=work.reasoning,
    )
    work.asking()
    work.crash(CrashPoint.MODEL_CALLED)
    completed: Completed | None = None
    async for event in agent.client.stream(request):  # to its end, so that it closes by itself
        if isinstance(event, Completed):
            completed = event
        else:
            _show(work, event)
    assert completed is not None, "the port promises that a stream ends with Completed"
    work.heard(completed)
    if not spare:
        agent.context.measured(completed.usage.input_tokens)
    return completed


def _shown(agent: Agent, *, last_chance: bool, spare: int) -> tuple[Message, ...]:
    messages = [*agent.messages, BUDGET_USED] if last_chance else agent.messages
    projected = project(messages, skipped=agent.context.skipped)
    if not agent.sees:
        projected = tuple(without_pictures(projected))
    if spare:
        log.warning(
            "The history of %s is too long and could not be summarised: old tool results are "
            "left out of this request.",
            agent.session_id,
            extra={"action": "results_left_out", "session": agent.session_id},
        )
        projected = lightened(projected, spare=spare)
    return projected


def _show(work: Work, event: ModelEvent) -> None:
    match event:
        case TextDelta():
            work.emit(TextStreamed(event.text))
        case ReasoningDelta():
            work.emit(ReasoningStreamed(event.text))
        case Retrying():
            work.emit(StreamVoided(event.why))
        case FellBack():
            work.emit(StreamVoided(f"{event.why} {event.model} answers instead"))
            work.fell_back(event)
