"""The loop of a turn: settle what is open, ask the model, commit, run its tools, until it is done.

Where the turn stands is read from the buffer alone, so a turn that an earlier process began is
gone on with by the same lines that would have finished it then.
"""

import msgspec

from holdfast.agent.agent import Agent
from holdfast.agent.asking import ask
from holdfast.agent.keeping import until_kept
from holdfast.agent.tool_calls import run_calls
from holdfast.agent.vision import describe_pictures
from holdfast.agent.work import Parked, Work
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import CallId
from holdfast.core.messages.events import StepEnded
from holdfast.core.messages.message import AssistantMessage
from holdfast.core.turns.model import Completed
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.turn import Usage

NOTHING_SAID = "(The model gave an empty answer.)"


async def run_turn(agent: Agent, work: Work) -> Completed:
    """Run the turn to its final reply, which is returned uncommitted: its commit ends the turn.

    Raises `ModelFailed` where the model failed for good, `StoreError` where a step cannot be kept
    (a full disk is waited for), `Parked` at the first step boundary behind a wish for that. May be
    cancelled at any await.
    """
    replies = work.replies_before
    while True:
        await run_calls(agent, work, open_calls(agent.messages))
        await _take_steers(agent, work)
        if work.parking:
            raise Parked
        await describe_pictures(agent, work)
        last_chance = replies >= agent.max_steps
        completed = await ask(agent, work, last_chance=last_chance)
        work.crash(CrashPoint.MODEL_REPLIED)
        if last_chance or not completed.message.calls:
            return _final(completed)
        reply = _with_own_ids(completed.message, f"{work.turn_id}.{replies}")
        await _keep_reply(agent, work, reply, completed.usage)
        work.crash(CrashPoint.REPLY_COMMITTED)
        work.emit(StepEnded(reply.text))
        replies += 1


async def _keep_reply(agent: Agent, work: Work, reply: AssistantMessage, usage: Usage) -> None:
    await until_kept(lambda: agent.keep(reply, work.replied(reply, usage)), agent.session_id)


async def _take_steers(agent: Agent, work: Work) -> None:
    async def take() -> None:
        """One that the log refuses stands in front again."""
        while steer := work.next_steer():
            await agent.keep(*steer)

    await until_kept(take, agent.session_id)


def _final(completed: Completed) -> Completed:
    message = completed.message
    if message.text and not message.calls:
        return completed
    text = message.text or NOTHING_SAID
    return Completed(msgspec.structs.replace(message, text=text, calls=()), completed.usage)


def _with_own_ids(message: AssistantMessage, place: str) -> AssistantMessage:
    """Calls named by their place in the session.

    Providers reuse ids ("call_0" in every reply); ours name a command in the runner's
    journal, where a second use would be taken for the first.
    """
    calls = tuple(
        msgspec.structs.replace(call, id=CallId(f"{place}.{number}"))
        for number, call in enumerate(message.calls)
    )
    return msgspec.structs.replace(message, calls=calls)
