"""Subagents: started and waited for on behalf of a turn or command, listed while at work, and stopped."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from holdfast.core.config.settings import DelegateSettings
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import MessageEnded, ToolStarted, TurnEvent
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import Store
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
from holdfast.gateway.live.subscriptions import EndFuture, MessageSubscriptions

log = logging.getLogger(__name__)


# MERGED holdfast.gateway.children: Children: which are at work, for whom, and how they end with whoever they work for.
class SubagentCallbacks(msgspec.Struct, frozen=True, kw_only=True):
    """What children need of the rest of the house, which is built on top of them."""

    accept: Callable[[Inbound, PrincipalId], Awaitable[Accepted]]
    on_accepted: Callable[[Accepted], None]  # another's commit did that
    subscriptions: MessageSubscriptions
    watch_message: Callable[[InboxId], AbstractAsyncContextManager[AsyncIterator[TurnEvent]]]
    stop_session: Callable[[SessionId], Awaitable[bool]]
    close_session: Callable[[SessionId], Awaitable[None]]
    session_key: Callable[[Source], SessionKey]
    running_turn_of: Callable[[SessionId], TurnId | None]  # the turn that runs in a session
    tasks: asyncio.TaskGroup


class Subagents:
    """Owns the list of children at work; all else about them is in the store.

    A child that a call waits for ends with the turn of that call, a background one with the
    conversation it works for; a gateway that stops ends neither.
    """

    name = "children"

    def __init__(
        self,
        *,
        store: Store,
        clock: Clock,
        new_id: IdFactory,
    ) -> None:
        self.store = store
        self.clock = clock
        self.new_id = new_id
        self._running: dict[InboxId, Subagent] = {}
        self._recovered = asyncio.Event()  # those that an earlier process left are on the list
        self._detached = False
        self._callbacks: SubagentCallbacks

    def set_callbacks(self, callbacks: SubagentCallbacks) -> None:
        self._callbacks = callbacks

    async def callbacks(self) -> SubagentCallbacks:
        """The way to the rest of the house, once it is known who is at work there already."""
        await self._recovered.wait()
        return self._callbacks

    def of_session(self, session_id: SessionId) -> list[Subagent]:
        """All that work for the session, in the order in which they began."""
        return [child for child in self._running.values() if child.parent == session_id]

    def count(self, kind: SubagentKind) -> int:
        return sum(child.kind is kind for child in self._running.values())

    def awaited_count(self, session_id: SessionId) -> int:
        """How many children the session's turn waits for."""
        return sum(child.kind is SubagentKind.FOREGROUND for child in self.of_session(session_id))

    def in_background(self, session_id: SessionId) -> list[Subagent]:
        at_work = self.of_session(session_id)
        return [child for child in at_work if child.kind is SubagentKind.BACKGROUND]

    def on_admitted(self, row: InboxRow) -> None:
        """A child's work has come into the log, and to its lane.

        The turn that asked for it may have ended while it was on its way there.
        """
        child = row.inbound.subagent
        if child is None:
            return
        self._follow(row.id, child)
        if (
            child.turn_id is not None
            and self._callbacks.running_turn_of(child.parent) != child.turn_id
        ):
            self.abandon(child)

    async def follow_recovered(self) -> None:
        """Take note of what goes on from an earlier process, and end what nobody wants of it."""
        for row, wanted in await self.store.running_subagents():
            child = row.inbound.subagent
            if child is None or row.id not in self._callbacks.subscriptions:
                continue
            self._follow(row.id, child)
            if not wanted:
                self.abandon(child)
        self._recovered.set()

    def detach(self) -> None:
        """The gateway stops: from now on nobody's end is the end of a child."""
        self._detached = True

    def abandon(self, subagent: Subagent) -> None:
        """Nobody waits for this child any more."""
        if not self._detached:
            self._callbacks.tasks.create_task(
                self._stop([subagent]), name=f"stop {subagent.session_id}"
            )

    async def stop_background(self, session_id: SessionId) -> list[Subagent]:
        """End the session's background children for good; those that were ended."""
        children = self.in_background(session_id)
        await self._stop(children)
        return children

    async def end_session(self, session_id: SessionId) -> None:
        """The session is closed, and so is all that works for it."""
        await self._stop(self.of_session(session_id))

    async def _stop(self, subagents: Iterable[Subagent]) -> None:
        stopping = [self._callbacks.stop_session(child.session_id) for child in subagents]
        for failure in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(failure, StoreError):
                # The next start finds that nobody wants it.
                log.error(
                    "A child could not be stopped: %s", failure, extra={"action": "subagent_failed"}
                )
            elif isinstance(failure, BaseException):
                raise failure

    def _follow(self, inbox_id: InboxId, subagent: Subagent) -> None:
        self._running[inbox_id] = subagent
        ending, name = (
            self._callbacks.subscriptions.end_of(inbox_id),
            f"child {subagent.session_id}",
        )
        self._callbacks.tasks.create_task(self._until_ended(inbox_id, subagent, ending), name=name)

    async def _until_ended(self, inbox_id: InboxId, subagent: Subagent, ending: EndFuture) -> None:
        try:
            ended = await ending
        finally:
            del self._running[inbox_id]
        if ended is None:
            return
        try:
            await self.store.end_session(subagent.session_id, at=self.clock.now())
        except StoreError as error:
            about = {"action": "subagent_failed", "session": subagent.session_id}
            log.warning("A child's session stays open: %s", error, extra=about)
        await self._callbacks.close_session(subagent.session_id)


# MERGED holdfast.gateway.delegating: Delegating: children on behalf of one turn or command, started and waited for.
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
