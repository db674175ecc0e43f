"""Children: which are at work, for whom, and how they end with whoever they work for."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.events import Event
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow
from holdfast.core.messages.source import Source
from holdfast.core.ports.protocols import Clock, NewId, Store
from holdfast.core.turns.subagent import Child, ChildKind
from holdfast.gateway.live.subscriptions import Ending, Watchers

log = logging.getLogger(__name__)


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """What children need of the rest of the house, which is built on top of them."""

    keep: Callable[[Inbound, PrincipalId], Awaitable[Accepted]]
    kept: Callable[[Accepted], None]  # another's commit did that
    watchers: Watchers
    watch: Callable[[InboxId], AbstractAsyncContextManager[AsyncIterator[Event]]]
    stop: Callable[[SessionId], Awaitable[bool]]
    close: Callable[[SessionId], Awaitable[None]]
    key: Callable[[Source], SessionKey]
    turn_of: Callable[[SessionId], TurnId | None]  # the turn that runs in a session
    tasks: asyncio.TaskGroup


class Children:
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
        new_id: NewId,
    ) -> None:
        self.store = store
        self.clock = clock
        self.new_id = new_id
        self._at_work: dict[InboxId, Child] = {}
        self._known = asyncio.Event()  # those that an earlier process left are on the list
        self._leaving = False
        self._ways: Ways

    def settle_in(self, ways: Ways) -> None:
        self._ways = ways

    async def ways(self) -> Ways:
        """The way to the rest of the house, once it is known who is at work there already."""
        await self._known.wait()
        return self._ways

    def at_work(self, session_id: SessionId) -> list[Child]:
        """All that work for the session, in the order in which they began."""
        return [child for child in self._at_work.values() if child.parent == session_id]

    def count(self, kind: ChildKind) -> int:
        return sum(child.kind is kind for child in self._at_work.values())

    def running(self, session_id: SessionId) -> int:
        """How many children the session's turn waits for."""
        return sum(child.kind is ChildKind.WAITED for child in self.at_work(session_id))

    def in_background(self, session_id: SessionId) -> list[Child]:
        at_work = self.at_work(session_id)
        return [child for child in at_work if child.kind is ChildKind.BACKGROUND]

    def admitted(self, row: InboxRow) -> None:
        """A child's work has come into the log, and to its lane.

        The turn that asked for it may have ended while it was on its way there.
        """
        child = row.inbound.child
        if child is None:
            return
        self._follow(row.id, child)
        if child.turn_id is not None and self._ways.turn_of(child.parent) != child.turn_id:
            self.abandon(child)

    async def recovered(self) -> None:
        """Take note of what goes on from an earlier process, and end what nobody wants of it."""
        for row, wanted in await self.store.children_at_work():
            child = row.inbound.child
            if child is None or row.id not in self._ways.watchers:
                continue
            self._follow(row.id, child)
            if not wanted:
                self.abandon(child)
        self._known.set()

    def leave(self) -> None:
        """The gateway stops: from now on nobody's end is the end of a child."""
        self._leaving = True

    def abandon(self, child: Child) -> None:
        """Nobody waits for this child any more."""
        if not self._leaving:
            self._ways.tasks.create_task(self._stop([child]), name=f"stop {child.session_id}")

    async def stop_background(self, session_id: SessionId) -> list[Child]:
        """End the session's background children for good; those that were ended."""
        children = self.in_background(session_id)
        await self._stop(children)
        return children

    async def end(self, session_id: SessionId) -> None:
        """The session is closed, and so is all that works for it."""
        await self._stop(self.at_work(session_id))

    async def _stop(self, children: Iterable[Child]) -> None:
        stopping = [self._ways.stop(child.session_id) for child in children]
        for failure in await asyncio.gather(*stopping, return_exceptions=True):
            if isinstance(failure, StoreError):
                # The next start finds that nobody wants it.
                log.error("A child could not be stopped: %s", failure, extra={"action": "child"})
            elif isinstance(failure, BaseException):
                raise failure

    def _follow(self, inbox_id: InboxId, child: Child) -> None:
        self._at_work[inbox_id] = child
        ending, name = self._ways.watchers.end_of(inbox_id), f"child {child.session_id}"
        self._ways.tasks.create_task(self._until_ended(inbox_id, child, ending), name=name)

    async def _until_ended(self, inbox_id: InboxId, child: Child, ending: Ending) -> None:
        try:
            ended = await ending
        finally:
            del self._at_work[inbox_id]
        if ended is None:
            return
        try:
            await self.store.end_session(child.session_id, at=self.clock.now())
        except StoreError as error:
            about = {"action": "child", "session": child.session_id}
            log.warning("A child's session stays open: %s", error, extra=about)
        await self._ways.close(child.session_id)
