"""Subagents: started on behalf of a turn or a command, waited for, listed while they run, stopped.

A subagent that a call waits for ends with the turn of that call; a background subagent ends with
the session it works for. A stopping gateway ends neither: they are resumed by the next process.
The report of a background subagent comes back as a delivery to an internal platform
(`gateway/internal_platforms.py`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from holdfast.core.config.settings import DelegateSettings, route_of
from holdfast.core.errors import StoreError
from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import MessageEnded, ToolStarted
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import AssistantMessage
from holdfast.core.people.memory import OwnerId, row_memory_owner
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Clock, IdFactory
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AcceptMessage
from holdfast.core.ports.store_queries import GetSession, ListRecords, ListRunningSubagents
from holdfast.core.sessions.session import SessionRow
from holdfast.core.turns.external import taint_labels
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
from holdfast.gateway.committed import accepted_message
from holdfast.gateway.live.subscriptions import EndFuture, MessageSubscriptions, MessageWatcher
from holdfast.gateway.live_settings import LiveSettings

log = logging.getLogger(__name__)


SUBAGENT_INSTRUCTIONS = (
    "You are a subagent: another agent gave you the one task below and sees nothing of your "
    "work but your final reply. Do the task and no more, ask no questions, and reply with the "
    "result: what you found or did, where it is, and what is open."
)
EXPLICIT_TOOLSETS = frozenset({"memory", "schedule"})  # a subagent gets these only if named
_LAST_RECORDS = 20
_END_STATES = {InboxState.ANSWERED: SubagentState.ANSWERED, InboxState.FAILED: SubagentState.FAILED}


class SubagentStops(Enum):
    """Which subagents this process stops. A stop of the gateway only ever restricts it."""

    ALL = auto()  # also those whose turn has ended without their result
    REQUESTED = auto()  # those that a person or the end of a session stops
    NONE = auto()  # the next start stops them


class Subagents:
    """Owns the list of running subagents; all else about them is in the store.

    Starting one means to submit its task: the commit gives it to the router like every other
    message. Stopping one is requested here and done by `SubagentSupervisor`, which knows the lanes.
    """

    name = "subagents"

    def __init__(
        self,
        live_settings: LiveSettings,
        watcher: MessageWatcher,
        *,
        store: Store,
        clock: Clock,
        new_id: IdFactory,
    ) -> None:
        self.store = store
        self.clock = clock
        self.new_id = new_id
        self.watcher = watcher
        self.stop_requests: asyncio.Queue[StopSubagents] = asyncio.Queue()
        self.recovered = asyncio.Event()  # set once those of an earlier process are on the list
        self._live_settings = live_settings
        self._running: dict[InboxId, Subagent] = {}
        self._stops = SubagentStops.ALL

    def session_key(self, source: Source) -> SessionKey:
        return route_of(source, self._live_settings.current.sessions)

    async def submit(self, inbound: Inbound, principal: PrincipalId) -> Accepted:
        """Accept a task or a result, once the subagents of an earlier process are known."""
        await self.recovered.wait()
        return await self.store.write(
            AcceptMessage(
                inbound=inbound,
                route=self.session_key(inbound.source),
                principal=principal,
                at=self.clock.now(),
            )
        )

    def of_session(self, session_id: SessionId) -> list[Subagent]:
        """All that work for the session, in the order in which they began."""
        return [each for each in self._running.values() if each.parent == session_id]

    def count(self, kind: SubagentKind) -> int:
        return sum(each.kind is kind for each in self._running.values())

    def awaited_count(self, session_id: SessionId) -> int:
        """How many subagents the session's turn waits for."""
        return sum(each.kind is SubagentKind.FOREGROUND for each in self.of_session(session_id))

    def in_background(self, session_id: SessionId) -> list[Subagent]:
        running = self.of_session(session_id)
        return [each for each in running if each.kind is SubagentKind.BACKGROUND]

    def add(self, inbox_id: InboxId, subagent: Subagent) -> None:
        """Its task is in a lane."""
        self._running[inbox_id] = subagent

    def remove(self, inbox_id: InboxId) -> None:
        del self._running[inbox_id]

    def detach(self) -> None:
        """The gateway stops: from now on the end of a turn does not stop its subagents."""
        if self._stops is SubagentStops.ALL:
            self._stops = SubagentStops.REQUESTED

    def abandon(self, subagent: Subagent) -> None:
        """Its result is not needed any more: have it stopped, and do not wait for that."""
        if self._stops is SubagentStops.ALL:
            self._request_stop([subagent])

    async def stop_background(self, session_id: SessionId) -> list[Subagent]:
        """Stop the session's background subagents for good; returns them."""
        subagents = self.in_background(session_id)
        await self.stop(subagents)
        return subagents

    async def end_session(self, session_id: SessionId) -> None:
        """The session is closed: stop all that work for it."""
        await self.stop(self.of_session(session_id))

    async def stop(self, subagents: Sequence[Subagent]) -> None:
        """Returns when they are stopped."""
        if subagents:
            await asyncio.shield(self._request_stop(subagents))

    def _request_stop(self, subagents: Sequence[Subagent]) -> asyncio.Future[None]:
        stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._stops is SubagentStops.NONE:
            stopped.set_result(None)  # the next start stops it
        else:
            self.stop_requests.put_nowait(StopSubagents(tuple(subagents), stopped))
        return stopped

    def close(self) -> None:
        """No request to stop is carried out any more; no caller waits for one."""
        self._stops = SubagentStops.NONE
        while not self.stop_requests.empty():
            self.stop_requests.get_nowait().stopped.set_result(None)


class StopSubagents(NamedTuple):
    """A request to stop these; `stopped` is resolved when that is done."""

    subagents: tuple[Subagent, ...]
    stopped: asyncio.Future[None]


class SubagentSupervisor:
    """Follows each running subagent to its end and carries out requests to stop them. Owns no list:
    that is in `Subagents`, which turns and tools use."""

    def __init__(
        self,
        subagents: Subagents,
        subscriptions: MessageSubscriptions,
        *,
        stop_session: Callable[[SessionId], Awaitable[bool]],
        close_session: Callable[[SessionId], Awaitable[None]],
        running_turn_of: Callable[[SessionId], TurnId | None],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._subagents = subagents
        self._subscriptions = subscriptions
        self._stop_session = stop_session
        self._close_session = close_session
        self._running_turn_of = running_turn_of
        self._tasks = tasks

    async def run(self) -> None:
        """Carry out requests to stop, until this is cancelled."""
        try:
            while True:
                request = await self._subagents.stop_requests.get()
                names = ", ".join(each.session_id for each in request.subagents)
                self._tasks.create_task(self._stop(request), name=f"stop {names}")
        finally:
            self._subagents.close()

    def on_committed(self, event: Committed) -> None:
        """The task of a subagent was accepted, and the router has given it to its lane. The turn
        that asked for it may have ended in the meantime."""
        if isinstance(event.command, AcceptMessage) and event.command.inbound.subagent is None:
            return
        accepted = accepted_message(event)
        subagent = None if accepted is None else accepted.row.inbound.subagent
        if accepted is None or subagent is None or accepted.row.id not in self._subscriptions:
            return
        self._follow(accepted.row.id, subagent)
        turn_id = subagent.turn_id
        if turn_id is not None and self._running_turn_of(subagent.parent) != turn_id:
            self._subagents.abandon(subagent)

    async def follow_recovered(self) -> None:
        """List the subagents of an earlier process, and stop those whose turn or session ended."""
        for row, needed in await self._subagents.store.read(ListRunningSubagents()):
            subagent = row.inbound.subagent
            if subagent is None or row.id not in self._subscriptions:
                continue
            self._follow(row.id, subagent)
            if not needed:
                self._subagents.abandon(subagent)
        self._subagents.recovered.set()

    async def _stop(self, request: StopSubagents) -> None:
        stopping = [self._stop_session(each.session_id) for each in request.subagents]
        for failure in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(failure, StoreError):
                # The next start stops it: `follow_recovered`.
                about = {"action": "subagent_failed"}
                log.error(
                    "Could not stop a subagent: %s; the next start stops it", failure, extra=about
                )
            elif isinstance(failure, BaseException):
                raise failure
        if not request.stopped.done():
            request.stopped.set_result(None)

    def _follow(self, inbox_id: InboxId, subagent: Subagent) -> None:
        self._subagents.add(inbox_id, subagent)
        ending = self._subscriptions.end_of(inbox_id)
        self._tasks.create_task(
            self._until_ended(inbox_id, subagent, ending), name=f"subagent {subagent.session_id}"
        )

    async def _until_ended(self, inbox_id: InboxId, subagent: Subagent, ending: EndFuture) -> None:
        try:
            ended = await ending
        finally:
            self._subagents.remove(inbox_id)
        if ended is None:
            return
        # The commit of that end has ended the session.
        await self._close_session(subagent.session_id)


class DelegationRequester(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks for subagents: a turn, or a person by a command (then no turn waits)."""

    session_id: SessionId
    turn_id: TurnId | None
    principal: PrincipalId
    toolsets: tuple[str, ...]
    depth: int  # 0: a conversation
    sandbox_session: SessionId
    chat: Source
    message_id: str
    memory_owner: OwnerId


def delegation_requester(
    row: InboxRow, *, session_id: SessionId, turn_id: TurnId | None, toolsets: Sequence[str]
) -> DelegationRequester:
    """The requester for this message; for one of a subagent, the chat is that of its parent."""
    parent, inbound = row.inbound.subagent, row.inbound
    return DelegationRequester(
        session_id=session_id,
        turn_id=turn_id,
        principal=row.principal,
        toolsets=tuple(toolsets),
        depth=parent.depth if parent else 0,
        sandbox_session=parent.sandbox_session if parent else session_id,
        chat=parent.chat if parent else inbound.source,
        message_id=parent.message_id if parent else inbound.message_id,
        memory_owner=row_memory_owner(row),
    )


class DelegateService:
    """Starts subagents for one requester, as the `delegate` tool needs it; owns nothing."""

    def __init__(
        self, subagents: Subagents, requester: DelegationRequester, *, limits: DelegateSettings
    ) -> None:
        self._subagents = subagents
        self._requester = requester
        self._limits = limits

    @property
    def toolsets(self) -> tuple[str, ...]:
        deepest = self._requester.depth + 1 >= self._limits.depth
        return tuple(
            name for name in self._requester.toolsets if not (deepest and name == DELEGATE_TOOL)
        )

    async def run_and_wait(
        self, call_id: CallId, tasks: Sequence[SubagentTask], *, progress: Callable[[str], None]
    ) -> list[SubagentResult]:
        self._check_depth()
        parent = await self._parent()
        slots = asyncio.Semaphore(self._limits.parallel)

        async def run(index: int, task: SubagentTask) -> SubagentResult:
            async with slots:
                inbound = self._build_message(call_id, index, task, SubagentKind.FOREGROUND, parent)
                try:
                    return await self._run_one(inbound, progress)
                except StoreError as error:  # of this subagent alone: the others continue
                    failed = SubagentState.FAILED
                    return SubagentResult(title=task.title, state=failed, text="", why=str(error))

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(index, task)) for index, task in enumerate(tasks)]
        return [done.result() for done in running]

    async def run_in_background(self, call_id: CallId, tasks: Sequence[SubagentTask]) -> list[str]:
        for inbound in await self.prepare_background(call_id, tasks):
            await self._subagents.submit(inbound, self._requester.principal)
        return [task.title for task in tasks]

    async def prepare_background(
        self, call_id: CallId, tasks: Sequence[SubagentTask]
    ) -> list[Inbound]:
        """The messages that start them; none is started if one too many is asked for."""
        if self._requester.depth:
            raise ToolFailed("a subagent cannot work in the background: leave that out, and wait")
        await self._subagents.recovered.wait()
        limit = self._limits.max_background
        others = self._subagents.in_background(self._requester.session_id)
        if sum(each.call_id != call_id for each in others) + len(tasks) > limit:
            raise ToolFailed(f"{len(others)} subagents work in the background; {limit} are allowed")
        parent = await self._parent()
        return [
            self._build_message(call_id, index, task, SubagentKind.BACKGROUND, parent)
            for index, task in enumerate(tasks)
        ]

    async def _run_one(self, inbound: Inbound, progress: Callable[[str], None]) -> SubagentResult:
        row = (await self._subagents.submit(inbound, self._requester.principal)).row
        subagent = row.inbound.subagent
        assert subagent is not None, "the row of this event was written by a call like this one"
        try:
            async with asyncio.timeout(self._time_left(row)):
                return await self._wait_for_end(row, subagent, progress)
        except TimeoutError:
            await self._subagents.stop([subagent])
            return await self._result_without_answer(subagent, SubagentState.TIMED_OUT)
        except asyncio.CancelledError:
            self._subagents.abandon(subagent)
            raise

    def _time_left(self, row: InboxRow) -> float | None:
        limit = self._limits.time_limit
        return max(0.0, row.accepted_at + limit - self._subagents.clock.now()) if limit else None

    async def _wait_for_end(
        self, row: InboxRow, subagent: Subagent, progress: Callable[[str], None]
    ) -> SubagentResult:
        async with self._subagents.watcher.watch(row.id) as events:
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
            sources = await self._sources_of(subagent.session_id)
            return SubagentResult(
                title=subagent.title, state=state, text=event.text, sources=sources
            )
        return await self._result_without_answer(subagent, state, event.reason)

    async def _result_without_answer(
        self, subagent: Subagent, state: SubagentState, why: str = ""
    ) -> SubagentResult:
        """The result with its last text, if there is one."""
        records = await self._subagents.store.read(
            ListRecords(session_id=subagent.session_id, limit=_LAST_RECORDS)
        )
        texts = [r.message.text for r in records if isinstance(r.message, AssistantMessage)]
        last = next((text for text in reversed(texts) if text), "")
        sources = await self._sources_of(subagent.session_id)
        return SubagentResult(
            title=subagent.title, state=state, text=last, why=why, sources=sources
        )

    def _check_depth(self) -> None:
        if self._requester.depth >= self._limits.depth:
            raise ToolFailed("a subagent this deep cannot have subagents: do it yourself")

    async def _parent(self) -> SessionRow | None:
        return await self._subagents.store.read(GetSession(session_id=self._requester.session_id))

    async def _sources_of(self, session_id: SessionId) -> tuple[str, ...]:
        """The external content in the session of a subagent."""
        session = await self._subagents.store.read(GetSession(session_id=session_id))
        return () if session is None else taint_labels(session.taints)

    def _build_message(
        self,
        call_id: CallId,
        index: int,
        task: SubagentTask,
        kind: SubagentKind,
        parent: SessionRow | None,
    ) -> Inbound:
        requester, max_steps = self._requester, self._limits.max_steps
        default_toolsets = tuple(name for name in self.toolsets if name not in EXPLICIT_TOOLSETS)
        subagent = Subagent(
            session_id=SessionId(self._subagents.new_id("s")),
            parent=requester.session_id,
            turn_id=requester.turn_id if kind is SubagentKind.FOREGROUND else None,
            call_id=call_id,
            kind=kind,
            principal=requester.principal,
            title=task.title,
            depth=requester.depth + 1,
            max_steps=min(task.max_steps or max_steps, max_steps),
            toolsets=default_toolsets if task.toolsets is None else task.toolsets,
            sandbox_session=requester.sandbox_session,
            model=None if parent is None else parent.model_override,
            chat=requester.chat,
            message_id=requester.message_id,
            memory_owner=requester.memory_owner,
        )
        event_id = f"{call_id}.{index}"
        return Inbound(
            source=Source(
                platform=INTERNAL_PLATFORM,
                account=kind,
                chat_id=subagent.session_id,
                user_id=requester.principal,
            ),
            event_id=event_id,
            message_id=event_id,
            text=task.text,
            sources=() if parent is None else taint_labels(parent.taints),
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=False,
            instructions=SUBAGENT_INSTRUCTIONS,
            subagent=subagent,
        )
