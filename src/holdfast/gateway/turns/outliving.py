"""Outliving: which of the calls that a turn waits for go on when the process goes."""

from collections.abc import Collection

from holdfast.agent.agent import Agent
from holdfast.core.ids import CallId
from holdfast.core.messages.message import ToolMessage, ToolOutcome
from holdfast.core.turns.projection import open_calls
from holdfast.core.turns.subagent import DELEGATE_TOOL
from holdfast.core.turns.tool import ReplayClass
from holdfast.gateway.turns.transcribing import interrupted_call_results


def all_calls_detachable(agent: Agent, started: Collection[CallId]) -> bool:
    """All that its turn waits for are calls that a successor can attach to."""
    running = [call for call in open_calls(agent.messages) if call.id in started]
    return bool(running) and all(_is_attachable(agent, call.name) for call in running)


def results_of_cancelled_calls(
    agent: Agent, started: Collection[CallId], *, detached: bool
) -> list[ToolMessage]:
    """The results of those that run and have no other end. `detached`: what a successor can
    attach to lives on."""
    return [
        result
        for result in interrupted_call_results(agent.messages, started)
        if result.outcome is ToolOutcome.CANCELLED
        # Children have rows of their own: they go on in the successor, and so does their call.
        and result.name != DELEGATE_TOOL
        and not (detached and _is_attachable(agent, result.name))
    ]


def _is_attachable(agent: Agent, name: str) -> bool:
    tool = agent.toolbox.by_name.get(name)
    return tool is not None and tool.replay is ReplayClass.ATTACH
