"""Delegating: children on behalf of one turn or command, started and waited for."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.config.settings import DelegateSettings
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, PrincipalId, SessionId, TurnId
from holdfast.core.messages.events import MessageEnded, ToolBegan
from holdfast.core.messages.inbox import BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.messages.message import AssistantMessage
from holdfast.core.messages.source import Source
from holdfast.core.turns.subagent import (
    DELEGATE,
    HOUSE,
    Child,
    ChildEnd,
    ChildKind,
    ChildState,
    Task,
)
from holdfast.core.turns.tool import ToolFailed
from holdfast.gateway.children import Children

WORD = (
    "You are a child agent: another agent gave you the one task below and sees nothing of your "
    "work but your final reply. Do the task and no more, ask nobody, and reply with the result: "
    "what you found or did, where it is, and what is open."
)
KEPT_BACK = frozenset({"memory", "schedule"})  # what a child gets only where it is named
_LAST_RECORDS = 20
_ENDS = {InboxState.ANSWERED: ChildState.ANSWERED, InboxState.FAILED: ChildState.FAILED}


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who wants children: a turn, or a person by a command (then no turn waits)."""

    session_id: SessionId
    turn_id: TurnId | None
    principal: PrincipalId
    toolsets: tuple[str, ...]
    depth: int  # 0: a conversation
    bench: SessionId
    chat: Source
    message_id: str


def asker_of(
    row: InboxRow, *, session_id: SessionId, turn_id: TurnId | None, toolsets: Sequence[str]
) -> Asker:
    """Whoever works on this message; where that is a child, people are where its parent's are."""
    child, inbound = row.inbound.child, row.inbound
    return Asker(
        session_id=session_id,
        turn_id=turn_id,
        principal=row.principal,
        toolsets=tuple(toolsets),
        depth=child.depth if child else 0,
        bench=child.bench if child else session_id,
        chat=child.chat if child else inbound.source,
        message_id=child.message_id if child else inbound.message_id,
    )


class Delegating:
    """`core.child.Delegation` for one asker; owns nothing."""

    def __init__(self, children: Children, asker: Asker, *, limits: DelegateSettings) -> None:
        self._children = children
        self._asker = asker
        self._limits = limits

    @property
    def toolsets(self) -> tuple[str, ...]:
        last = self._asker.depth + 1 >= self._limits.depth
        return tuple(name for name in self._asker.toolsets if not (last and name == DELEGATE))

    async def wait_for(
        self, call_id: CallId, tasks: Sequence[Task], *, progress: Callable[[str], None]
    ) -> list[ChildEnd]:
        self._check_depth()
        model = await self._model()
        free = asyncio.Semaphore(self._limits.parallel)

        async def one(place: int, task: Task) -> ChildEnd:
            async with free:
                inbound = self._work(call_id, place, task, ChildKind.WAITED, model)
                try:
                    return await self._until_ended(inbound, progress)
                except StoreError as error:  # of this child alone: its siblings go on
                    failed = ChildState.FAILED
                    return ChildEnd(title=task.title, state=failed, text="", why=str(error))

        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(one(place, task)) for place, task in enumerate(tasks)]
        return [done.result() for done in waiting]

    async def send_off(self, call_id: CallId, tasks: Sequence[Task]) -> list[str]:
        ways = await self._children.ways()
        for inbound in await self.in_background(call_id, tasks):
            await ways.keep(inbound, self._asker.principal)
        return [task.title for task in tasks]

    async def in_background(self, call_id: CallId, tasks: Sequence[Task]) -> list[Inbound]:
        """The work of those that are to be sent off, once all of them may be."""
        if self._asker.depth:
            raise ToolFailed("a child cannot work in the background: leave that out, and wait")
        await self._children.ways()
        most = self._limits.max_background
        others = self._children.in_background(self._asker.session_id)
        if sum(child.call_id != call_id for child in others) + len(tasks) > most:
            raise ToolFailed(f"{len(others)} children work in the background; {most} are allowed")
        model = await self._model()
        return [
            self._work(call_id, place, task, ChildKind.BACKGROUND, model)
            for place, task in enumerate(tasks)
        ]

    async def _until_ended(self, inbound: Inbound, progress: Callable[[str], None]) -> ChildEnd:
        ways = await self._children.ways()
        row = (await ways.keep(inbound, self._asker.principal)).row
        child = row.inbound.child
        assert child is not None, "the row of this event was written by a call like this one"
        try:
            async with asyncio.timeout(self._time_left(row)):
                return await self._end_of(row, child, progress)
        except TimeoutError:
            await ways.stop(child.session_id)
            return await self._unanswered(child, ChildState.LATE)
        except asyncio.CancelledError:
            self._children.abandon(child)
            raise

    def _time_left(self, row: InboxRow) -> float | None:
        limit = self._limits.time_limit
        return max(0.0, row.accepted_at + limit - self._children.clock.now()) if limit else None

    async def _end_of(
        self, row: InboxRow, child: Child, progress: Callable[[str], None]
    ) -> ChildEnd:
        ways = await self._children.ways()
        async with ways.watch(row.id) as events:
            async for event in events:
                if isinstance(event, ToolBegan):
                    progress(f"{child.title}: {event.name} {event.arguments[:100]}\n")
                elif isinstance(event, MessageEnded):
                    progress(f"{child.title}: {event.state}\n")
                    return await self._ended(child, event)
        # The gateway stops, and is about to cancel this.
        stopped: asyncio.Future[ChildEnd] = asyncio.get_running_loop().create_future()
        return await stopped

    async def _ended(self, child: Child, event: MessageEnded) -> ChildEnd:
        state = _ENDS.get(event.state, ChildState.STOPPED)
        if state is ChildState.ANSWERED:
            return ChildEnd(title=child.title, state=state, text=event.text)
        return await self._unanswered(child, state, event.reason)

    async def _unanswered(self, child: Child, state: ChildState, why: str = "") -> ChildEnd:
        """What is known all the same: the last thing it said."""
        records = await self._children.store.records(child.session_id, limit=_LAST_RECORDS)
        said = [r.message.text for r in records if isinstance(r.message, AssistantMessage)]
        last = next((text for text in reversed(said) if text), "")
        return ChildEnd(title=child.title, state=state, text=last, why=why)

    def _check_depth(self) -> None:
        if self._asker.depth >= self._limits.depth:
            raise ToolFailed("a child this deep cannot have children: do it yourself")

    async def _model(self) -> str | None:
        session = await self._children.store.session(self._asker.session_id)
        return session.model_override if session else None

    def _work(
        self, call_id: CallId, place: int, task: Task, kind: ChildKind, model: str | None
    ) -> Inbound:
        asker, most = self._asker, self._limits.max_steps
        usual = tuple(name for name in self.toolsets if name not in KEPT_BACK)
        child = Child(
            session_id=SessionId(self._children.new_id("s")),
            parent=asker.session_id,
            turn_id=asker.turn_id if kind is ChildKind.WAITED else None,
            call_id=call_id,
            kind=kind,
            principal=asker.principal,
            title=task.title,
            depth=asker.depth + 1,
            max_steps=min(task.max_steps or most, most),
            toolsets=usual if task.toolsets is None else task.toolsets,
            bench=asker.bench,
            model=model,
            chat=asker.chat,
            message_id=asker.message_id,
        )
        event_id = f"{call_id}.{place}"
        return Inbound(
            source=Source(
                platform=HOUSE, account=kind, chat_id=child.session_id, user_id=asker.principal
            ),
            event_id=event_id,
            message_id=event_id,
            text=task.text,
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=False,
            instructions=WORD,
            child=child,
        )
