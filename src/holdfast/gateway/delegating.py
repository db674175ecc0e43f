"""Delegating: children on behalf of one turn or command, started and waited for."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.config.settings import DelegateSettings
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.events import MessageEnded, ToolStarted
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.messages.message import AssistantMessage
from holdfast.core.messages.source import Source
from holdfast.core.turns.subagent import (
    DELEGATE_TOOL,
    INTERNAL_PLATFORM,
    Subagent,
    SubagentKind,
    SubagentResult,
    SubagentState,
    SubagentTask,
)
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.children import Subagents

SUBAGENT_INSTRUCTIONS = (
    "You are a child agent: another agent gave you the one task below and sees nothing of your "
    "work but your final reply. Do the task and no more, ask nobody, and reply with the result: "
    "what you found or did, where it is, and what is open."
)
EXPLICIT_TOOLSETS = frozenset({"memory", "schedule"})  # what a child gets only where it is named
_LAST_RECORDS = 20
_END_STATES = {InboxState.ANSWERED: SubagentState.ANSWERED, InboxState.FAILED: SubagentState.FAILED}


class DelegationRequester(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants children: a turn, or a person by a command (then no turn waits)."""

    session_id: SessionId
    turn_id: TurnId | None
    principal: PrincipalId
    toolsets: tuple[str, ...]
    depth: int  # 0: a conversation
    sandbox_session: SessionId
    chat: Source
    message_id: str


def delegation_requester(
    row: InboxRow, *, session_id: SessionId, turn_id: TurnId | None, toolsets: Sequence[str]
) -> DelegationRequester:
    """Whoever works on this message; where that is a child, people are where its parent's are."""
    child, inbound = row.inbound.subagent, row.inbound
    return DelegationRequester(
        session_id=session_id,
        turn_id=turn_id,
        principal=row.principal,
        toolsets=tuple(toolsets),
        depth=child.depth if child else 0,
        sandbox_session=child.sandbox_session if child else session_id,
        chat=child.chat if child else inbound.source,
        message_id=child.message_id if child else inbound.message_id,
    )


class DelegateService:
    """`core.child.Delegation` for one asker; owns nothing."""

    def __init__(
        self, subagents: Subagents, requester: DelegationRequester, *, limits: DelegateSettings
    ) -> None:
        self._subagents = subagents
        self._requester = requester
        self._limits = limits

    @property
    def toolsets(self) -> tuple[str, ...]:
        last = self._requester.depth + 1 >= self._limits.depth
        return tuple(
            name for name in self._requester.toolsets if not (last and name == DELEGATE_TOOL)
        )

    async def run_and_wait(
        self, call_id: CallId, tasks: Sequence[SubagentTask], *, progress: Callable[[str], None]
    ) -> list[SubagentResult]:
        self._check_depth()
        model = await self._model_override()
        free = asyncio.Semaphore(self._limits.parallel)

        async def one(place: int, task: SubagentTask) -> SubagentResult:
            async with free:
                inbound = self._build_message(call_id, place, task, SubagentKind.FOREGROUND, model)
                try:
                    return await self._run_one(inbound, progress)
                except StoreError as error:  # of this child alone: its siblings go on
                    failed = SubagentState.FAILED
                    return SubagentResult(title=task.title, state=failed, text="", why=str(error))

        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(one(place, task)) for place, task in enumerate(tasks)]
        return [done.result() for done in waiting]

    async def run_in_background(self, call_id: CallId, tasks: Sequence[SubagentTask]) -> list[str]:
        ways = await self._subagents.callbacks()
        for inbound in await self.prepare_background(call_id, tasks):
            await ways.accept(inbound, self._requester.principal)
        return [task.title for task in tasks]

    async def prepare_background(
        self, call_id: CallId, tasks: Sequence[SubagentTask]
    ) -> list[Inbound]:
        """The work of those that are to be sent off, once all of them may be."""
        if self._requester.depth:
            raise ToolFailed("a child cannot work in the background: leave that out, and wait")
        await self._subagents.callbacks()
        most = self._limits.max_background
        others = self._subagents.in_background(self._requester.session_id)
        if sum(child.call_id != call_id for child in others) + len(tasks) > most:
            raise ToolFailed(f"{len(others)} children work in the background; {most} are allowed")
        model = await self._model_override()
        return [
            self._build_message(call_id, place, task, SubagentKind.BACKGROUND, model)
            for place, task in enumerate(tasks)
        ]

    async def _run_one(self, inbound: Inbound, progress: Callable[[str], None]) -> SubagentResult:
        ways = await self._subagents.callbacks()
        row = (await ways.accept(inbound, self._requester.principal)).row
        child = row.inbound.subagent
        assert child is not None, "the row of this event was written by a call like this one"
        try:
            async with asyncio.timeout(self._time_left(row)):
                return await self._wait_for_end(row, child, progress)
        except TimeoutError:
            await ways.stop_session(child.session_id)
            return await self._result_without_answer(child, SubagentState.TIMED_OUT)
        except asyncio.CancelledError:
            self._subagents.abandon(child)
            raise

    def _time_left(self, row: InboxRow) -> float | None:
        limit = self._limits.time_limit
        return max(0.0, row.accepted_at + limit - self._subagents.clock.now()) if limit else None

    async def _wait_for_end(
        self, row: InboxRow, subagent: Subagent, progress: Callable[[str], None]
    ) -> SubagentResult:
        ways = await self._subagents.callbacks()
        async with ways.watch_message(row.id) as events:
            async for event in events:
                if isinstance(event, ToolStarted):
                    progress(f"{subagent.title}: {event.name} {event.arguments[:100]}\n")
                elif isinstance(event, MessageEnded):
                    progress(f"{subagent.title}: {event.state}\n")
                    return await self._result(subagent, event)
        # The gateway stops, and is about to cancel this.
        stopped: asyncio.Future[SubagentResult] = asyncio.get_running_loop().create_future()
        return await stopped

    async def _result(self, subagent: Subagent, event: MessageEnded) -> SubagentResult:
        state = _END_STATES.get(event.state, SubagentState.STOPPED)
        if state is SubagentState.ANSWERED:
            return SubagentResult(title=subagent.title, state=state, text=event.text)
        return await self._result_without_answer(subagent, state, event.reason)

    async def _result_without_answer(
        self, subagent: Subagent, state: SubagentState, why: str = ""
    ) -> SubagentResult:
        """What is known all the same: the last thing it said."""
        records = await self._subagents.store.records(subagent.session_id, limit=_LAST_RECORDS)
        said = [r.message.text for r in records if isinstance(r.message, AssistantMessage)]
        last = next((text for text in reversed(said) if text), "")
        return SubagentResult(title=subagent.title, state=state, text=last, why=why)

    def _check_depth(self) -> None:
        if self._requester.depth >= self._limits.depth:
            raise ToolFailed("a child this deep cannot have children: do it yourself")

    async def _model_override(self) -> str | None:
        session = await self._subagents.store.session(self._requester.session_id)
        return session.model_override if session else None

    def _build_message(
        self, call_id: CallId, index: int, task: SubagentTask, kind: SubagentKind, model: str | None
    ) -> Inbound:
        asker, most = self._requester, self._limits.max_steps
        usual = tuple(name for name in self.toolsets if name not in EXPLICIT_TOOLSETS)
        child = Subagent(
            session_id=SessionId(self._subagents.new_id("s")),
            parent=asker.session_id,
            turn_id=asker.turn_id if kind is SubagentKind.FOREGROUND else None,
            call_id=call_id,
            kind=kind,
            principal=asker.principal,
            title=task.title,
            depth=asker.depth + 1,
            max_steps=min(task.max_steps or most, most),
            toolsets=usual if task.toolsets is None else task.toolsets,
            sandbox_session=asker.sandbox_session,
            model=model,
            chat=asker.chat,
            message_id=asker.message_id,
        )
        event_id = f"{call_id}.{index}"
        return Inbound(
            source=Source(
                platform=INTERNAL_PLATFORM,
                account=kind,
                chat_id=child.session_id,
                user_id=asker.principal,
            ),
            event_id=event_id,
            message_id=event_id,
            text=task.text,
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=False,
            instructions=SUBAGENT_INSTRUCTIONS,
            subagent=child,
        )
