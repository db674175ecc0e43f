"""Outliving: which of the calls that a turn waits for go on when the process goes."""

from collections.abc import Collection

from holdfast.agent.agent import Agent
from holdfast.core.ids import CallId
from holdfast.core.messages.message import Outcome, ToolMessage
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.subagent import DELEGATE
from holdfast.core.turns.tool import Replay
from holdfast.gateway.turns.transcribing import cut_results


def runs_without_us(agent: Agent, started: Collection[CallId]) -> bool:
    """All that its turn waits for are calls that a successor can attach to."""
    running = [call for call in open_calls(agent.messages) if call.id in started]
    return bool(running) and all(_attachable(agent, call.name) for call in running)


def die_with_us(agent: Agent, started: Collection[CallId], *, detached: bool) -> list[ToolMessage]:
    """The results of those that run and have no other end. `detached`: what a successor can
    attach to lives on."""
    return [
        result
        for result in cut_results(agent.messages, started)
        if result.outcome is Outcome.CANCELLED
        # Children have rows of their own: they go on in the successor, and so does their call.
        and result.name != DELEGATE
        and not (detached and _attachable(agent, result.name))
    ]


def _attachable(agent: Agent, name: str) -> bool:
    tool = agent.toolbox.by_name.get(name)
    return tool is not None and tool.replay is Replay.ATTACH
