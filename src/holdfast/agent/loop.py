"""The loop of a turn: settle what is open, ask the model, commit, run its tools, until it is done.

Where the turn stands is read from the buffer alone, so a turn that an earlier process began is
gone on with by the same lines that would have finished it then.
"""

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.asking import ask_model
from holdfast.agent.keeping import write_with_retry
from holdfast.agent.tool_calls import run_calls
from holdfast.agent.vision import describe_images
from holdfast.agent.work import Parked, TurnPort
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import CallId
from holdfast.core.messages.events import StepEnded
from holdfast.core.messages.message import AssistantMessage
from holdfast.core.turns.model import Completed
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.turn import Usage

EMPTY_ANSWER = "(The model gave an empty answer.)"


async def run_turn(agent: Agent, turn: TurnPort) -> Completed:
    """Run the turn to its final reply, which is returned uncommitted: its commit ends the turn.

    Raises `ModelFailed` where the model failed for good, `StoreError` where a step cannot be kept
    (a full disk is waited for), `Parked` at the first step boundary behind a wish for that. May be
    cancelled at any await.
    """
    replies = turn.earlier_replies
    while True:
        await run_calls(agent, turn, open_calls(agent.messages))
        await _take_steers(agent, turn)
        if turn.parking:
            raise Parked
        await describe_images(agent, turn)
        last_chance = replies >= agent.max_steps
        completed = await ask_model(agent, turn, last_chance=last_chance)
        turn.crash_hook(CrashPoint.MODEL_REPLIED)
        if last_chance or not completed.message.calls:
            return _as_final_reply(completed)
        reply = _with_unique_call_ids(completed.message, f"{turn.turn_id}.{replies}")
        await _record_reply(agent, turn, reply, completed.usage)
        turn.crash_hook(CrashPoint.REPLY_COMMITTED)
        turn.emit(StepEnded(reply.text))
        replies += 1


async def _record_reply(
    agent: Agent, turn: TurnPort, reply: AssistantMessage, usage: Usage
) -> None:
    await write_with_retry(
        lambda: agent.append_durably(reply, turn.record_reply(reply, usage)), agent.session_id
    )


async def _take_steers(agent: Agent, turn: TurnPort) -> None:
    async def take() -> None:
        """One that the log refuses stands in front again."""
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
    """Calls named by their place in the session.

    Providers reuse ids ("call_0" in every reply); ours name a command in the runner's
    journal, where a second use would be taken for the first.
    """
    calls = tuple(
        msgspec.structs.replace(call, id=CallId(f"{prefix}.{number}"))
        for number, call in enumerate(message.calls)
    )
    return msgspec.structs.replace(message, calls=calls)
