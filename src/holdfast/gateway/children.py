"""Children: which are at work, for whom, and how they end with whoever they work for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow
from holdfast.core.messages.source import Source
from holdfast.core.ports.protocols import Clock, IdFactory, Store
from holdfast.core.turns.subagent import Subagent, SubagentKind
from holdfast.gateway.live.subscriptions import EndFuture, MessageSubscriptions

log = logging.getLogger(__name__)


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
