"""The delegate tool: gives work to child agents, and brings back what they say."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from holdfast.core.config.settings import DelegateSettings
from holdfast.core.messages.message import Outcome
from holdfast.core.turns.subagent import DELEGATE, ChildEnd, ChildState, Delegation, Task
from holdfast.core.turns.tool import Arguments, Danger, Replay, ToolContext, ToolFailed, ToolOutput
from holdfast.tools.arguments import decode, make_schema

_LONGEST_REPLY = 16_000  # characters of one child's; its session has the rest
_HOW = {
    ChildState.FAILED: "failed",
    ChildState.STOPPED: "was stopped before it was done",
    ChildState.LATE: "was stopped because its time was over",
}


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    task: Annotated[str, msgspec.Meta(min_length=1)]
    context: str = ""
    tools: tuple[str, ...] | None = None
    steps: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DelegateArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: Annotated[tuple[TaskArguments, ...], msgspec.Meta(min_length=1)]
    background: bool = False


class Delegate:
    """A call has its children by its own id, so that whoever makes it again, also after a
    restart, waits for the same ones."""

    schema = make_schema(
        DELEGATE,
        "Give tasks to child agents. They run in parallel in this workspace and know only what "
        "you tell them. Returns their final replies; in the background it returns at once and "
        "the replies come later. tools: the toolsets they get (default: yours).",
        DelegateArguments,
    )
    toolset = DELEGATE
    replay = Replay.ATTACH
    danger = Danger.NONE

    def __init__(self, settings: DelegateSettings) -> None:
        self._settings = settings

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        wanted, delegation = decode(DelegateArguments, arguments), context.delegation
        if delegation is None:
            raise ToolFailed("nothing can be delegated here: do it yourself")
        tasks = self._tasks(wanted.tasks, delegation)
        if wanted.background:
            return _sent_off(await delegation.send_off(context.call_id, tasks))
        return render(await delegation.wait_for(context.call_id, tasks, progress=context.progress))

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        return await self.run(context, arguments)

    def _tasks(self, wanted: Sequence[TaskArguments], delegation: Delegation) -> list[Task]:
        most = self._settings.max_tasks
        if len(wanted) > most:
            raise ToolFailed(f"at most {most} tasks at once: give the others afterwards")
        return [_task(one, delegation.toolsets) for one in wanted]


def _task(wanted: TaskArguments, allowed: Sequence[str]) -> Task:
    for name in wanted.tools or ():
        if name not in allowed:
            raise ToolFailed(f"a child cannot get {name!r}; it can get: {', '.join(allowed)}")
    text = f"{wanted.task}\n\nContext:\n{wanted.context}" if wanted.context else wanted.task
    return Task(text=text, toolsets=wanted.tools, max_steps=wanted.steps)


def _sent_off(titles: Sequence[str]) -> ToolOutput:
    listed = "\n".join(f"- {title}" for title in titles)
    return ToolOutput(
        text=f"Working in the background, each reply comes as a message when it is done:\n{listed}"
    )


def render(ends: Sequence[ChildEnd]) -> ToolOutput:
    """One child's reply as it is; of several, each under its number."""
    answered = [end.state is ChildState.ANSWERED for end in ends]
    if len(ends) == 1:
        texts = [_told(ends[0])]
    else:
        texts = [f"[{n}] {end.title}\n{_told(end)}" for n, end in enumerate(ends, 1)]
    outcome = Outcome.OK if any(answered) else Outcome.ERROR
    return ToolOutput(text="\n\n".join(texts), outcome=outcome)


def _told(end: ChildEnd) -> str:
    said = end.text
    if len(said) > _LONGEST_REPLY:
        said = f"{said[:_LONGEST_REPLY]}\n[cut: {len(said) - _LONGEST_REPLY} characters more]"
    if end.state is ChildState.ANSWERED:
        return said
    why = f": {end.why}" if end.why else ""
    last = f" The last it said: {said}" if said else ""
    return f"[This child {_HOW[end.state]}{why}. What it did may have had effects.{last}]"
