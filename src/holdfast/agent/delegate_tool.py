"""The `delegate` tool: gives tasks to subagents and returns their replies."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from holdfast.core.config.settings import DelegateSettings
from holdfast.core.messages.transcript import ToolOutcome
from holdfast.core.turns.subagent import (
    DELEGATE_TOOL,
    Delegation,
    SubagentResult,
    SubagentState,
    SubagentTask,
)
from holdfast.core.turns.tool import (
    Arguments,
    Danger,
    ReplayClass,
    ToolContext,
    ToolFailed,
    ToolOutput,
)
from holdfast.tools.arguments import decode, make_schema

_MAX_REPLY_CHARS = 16_000  # characters of one reply; the subagent's session has the rest
_FAILURE_TEXT = {
    SubagentState.FAILED: "failed",
    SubagentState.STOPPED: "was stopped before it was done",
    SubagentState.TIMED_OUT: "was stopped because its time was over",
}


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: Annotated[str, msgspec.Meta(min_length=1)]
    context: str = ""
    tools: tuple[str, ...] | None = None
    steps: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DelegateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[tuple[TaskArguments, ...], msgspec.Meta(min_length=1)]
    background: bool = False


class DelegateTool:
    """Gives tasks to subagents. A call identifies its subagents by its own id, so a repeated call,
    also after a restart, waits for the same ones."""

    schema = make_schema(
        DELEGATE_TOOL,
        "Give tasks to subagents. They run in parallel in this workspace and know only what "
        "you tell them. Returns their final replies; in the background it returns at once and "
        "the replies come later. tools: the toolsets they get (default: yours).",
        DelegateArguments,
    )
    toolset = DELEGATE_TOOL
    replay = ReplayClass.ATTACH
    danger = Danger.NONE

    def __init__(self, settings: DelegateSettings) -> None:
        self._settings = settings

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        request, delegation = decode(DelegateArguments, arguments), context.delegation
        if delegation is None:
            raise ToolFailed("nothing can be delegated here: do it yourself")
        tasks = self._tasks(request.tasks, delegation)
        if request.background:
            return _background_output(await delegation.run_in_background(context.call_id, tasks))
        return render_results(
            await delegation.run_and_wait(context.call_id, tasks, progress=context.progress)
        )

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)

    def _tasks(
        self, requested: Sequence[TaskArguments], delegation: Delegation
    ) -> list[SubagentTask]:
        most = self._settings.max_tasks
        if len(requested) > most:
            raise ToolFailed(f"at most {most} tasks at once: give the others afterwards")
        return [_to_task(one, delegation.toolsets) for one in requested]


def _to_task(requested: TaskArguments, allowed: Sequence[str]) -> SubagentTask:
    for name in requested.tools or ():
        if name not in allowed:
            raise ToolFailed(f"a subagent cannot get {name!r}; it can get: {', '.join(allowed)}")
    text = (
        f"{requested.task}\n\nContext:\n{requested.context}"
        if requested.context
        else requested.task
    )
    return SubagentTask(text=text, toolsets=requested.tools, max_steps=requested.steps)


def _background_output(titles: Sequence[str]) -> ToolOutput:
    listed = "\n".join(f"- {title}" for title in titles)
    return ToolOutput(
        text=f"Working in the background, each reply comes as a message when it is done:\n{listed}"
    )


def render_results(results: Sequence[SubagentResult]) -> ToolOutput:
    """The reply of one subagent as it is; the replies of several, each under its number."""
    answered = [end.state is SubagentState.ANSWERED for end in results]
    if len(results) == 1:
        texts = [_render_result(results[0])]
    else:
        texts = [f"[{n}] {end.title}\n{_render_result(end)}" for n, end in enumerate(results, 1)]
    outcome = ToolOutcome.OK if any(answered) else ToolOutcome.ERROR
    sources = dict.fromkeys(source for end in results for source in end.sources)
    return ToolOutput(text="\n\n".join(texts), outcome=outcome, sources=tuple(sources))


def _render_result(result: SubagentResult) -> str:
    text = result.text
    if len(text) > _MAX_REPLY_CHARS:
        text = f"{text[:_MAX_REPLY_CHARS]}\n[cut: {len(text) - _MAX_REPLY_CHARS} characters more]"
    if result.state is SubagentState.ANSWERED:
        return text
    why = f": {result.why}" if result.why else ""
    last = f" Its last message: {text}" if text else ""
    ended = f"This subagent {_FAILURE_TEXT[result.state]}{why}."
    return f"[{ended} Its actions may have had effects.{last}]"
