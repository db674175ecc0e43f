"""What a turn writes: its beginning, each step, and the one end, in this order and no other."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import CallId, InboxId, SessionId, TurnId
from holdfast.core.messages.message import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.turns.stop import Left, LeftAs
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn, Usage
from holdfast.gateway.approvals.pending import worked
from holdfast.gateway.services import House
from holdfast.gateway.unbroken import unbroken


class TurnClosed(HoldfastError):
    """The turn has ended; nothing more may be written in its name."""


def leave(house: House, left: Left) -> asyncio.Future[None]:
    """On its way to the log. A failure is nobody's to mend: the next start takes it for a crash."""
    point = CrashPoint.TURN_PARKED if left.how is LeftAs.PARKED else CrashPoint.TURN_MARKED
    durable = asyncio.ensure_future(house.store.leave_turn(left, at=house.clock.now()))
    durable.add_done_callback(lambda done: house.crash(point) if worked(done) else None)
    return durable


class TurnLog:
    """Owns how far a turn has come, and whether anything may still be written in its name.

    Every method queues its write before it returns, so writes keep the order of the calls; what
    it returns is done when the write is durable.
    """

    def __init__(
        self,
        turn_id: TurnId,
        agent: Agent,
        *,
        house: House,
        resumed: OpenTurn | None,
    ) -> None:
        self.turn_id = turn_id
        self.usage = resumed.usage if resumed else Usage()
        self.replies = resumed.model_steps if resumed else 0
        self.started_calls = set(resumed.started_calls if resumed else ())
        self.started_at = resumed.turn.started_at if resumed else house.clock.now()
        self.ending: EndTurn | None = None
        self._agent = agent
        self._house = house
        self._when_ended: Callable[[EndTurn], None] | None = None  # until its commit has called it
        self.left: LeftAs | None = None  # how this process leaves it, where it does
        self.leaving: asyncio.Future[None] | None = None  # that on its way to the log
        self._cut = False
        self._begun: asyncio.Future[None] | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def session_id(self) -> SessionId:
        return self._agent.session_id

    @property
    def closed(self) -> bool:
        """Ended, or left by a gateway that stops: either way nothing more is written."""
        return self._cut or self.ending is not None

    def must_be_open(self) -> None:
        if self.closed:
            raise TurnClosed(f"turn {self.turn_id} has ended")

    def begin(self, begin: BeginTurn) -> None:
        """Open the turn, and do not wait: the model may think while the disk turns.

        Writes keep their order, so nothing of the turn is durable before its beginning is.
        """
        self.started_at = begin.at
        write = self._house.store.begin_turn(begin)
        self._begun = self._told(write, then=lambda done: self._when_begun(begin, done))
        for message in begin.messages:
            self._agent.remember(message)
        self._house.crash(CrashPoint.TURN_BEGUN)

    async def has_begun(self) -> bool:
        """Whether the beginning is in the log; a turn that is gone on with has begun long ago."""
        try:
            if self._begun is not None:
                await unbroken(self._begun)
        except StoreError:
            return False
        return True

    def replied(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]:
        return self._said(self._house.store.record_reply, message, usage, replies=1)

    def noted(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self._said(self._house.store.record_note, message, usage)

    def compacted(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self._said(self._house.store.record_compaction, message, usage)

    def steered(self, inbox_id: InboxId, message: UserMessage) -> asyncio.Future[None]:
        self.must_be_open()
        return self._told(
            self._house.store.record_steer(
                self.turn_id,
                session_id=self.session_id,
                inbox_id=inbox_id,
                message=message,
                at=self._house.clock.now(),
            )
        )

    def calling(
        self, call_ids: Sequence[CallId], *, allowed: Mapping[CallId, str]
    ) -> Awaitable[None]:
        self.must_be_open()
        self.started_calls.update(call_ids)
        started = asyncio.ensure_future(
            self._house.store.record_started(
                self.turn_id,
                session_id=self.session_id,
                call_ids=call_ids,
                allowed=allowed,
                at=self._house.clock.now(),
            )
        )
        started.add_done_callback(lambda done: self._started(call_ids, done))
        return started

    def called(self, message: ToolMessage) -> asyncio.Future[None]:
        self.must_be_open()
        self.started_calls.discard(message.call_id)
        return self._told(
            self._house.store.record_finished(
                self.turn_id,
                session_id=self.session_id,
                message=message,
                at=self._house.clock.now(),
            ),
            lambda: self.started_calls.add(message.call_id),  # as far as the log knows, it runs
        )

    def end(self, end: EndTurn, *, then: Callable[[EndTurn], None]) -> None:
        """Close the turn: `end` is on its way to the log, and joins the buffer at once. `then` is
        called by its commit."""
        self.must_be_open()
        self.ending, self._when_ended = end, then
        self._house.crash(CrashPoint.END_SUBMITTED)
        for message in end.messages:
            self._agent.remember(message)
        self._ended = self._write_end(end)

    async def ended(self) -> None:
        """Returns once what closed the turn is durable. After a failure, asking writes again."""
        assert self.ending is not None, "only a turn that was ended has an end"
        writing = self._ended or self._write_end(self.ending)
        self._ended = None
        await unbroken(writing)

    def cut(self) -> None:
        """The gateway stops: the turn stays open, and nothing more is written in its name."""
        self.must_be_open()
        self._cut = True

    def leave(self, how: LeftAs) -> None:
        """The gateway goes, and this is how it leaves the turn. One that is parked is closed: its
        next step is a successor's. One that is marked may still come to its end until it is cut."""
        self.must_be_open()
        self.left = how
        self._cut = how is LeftAs.PARKED
        left = Left(session_id=self.session_id, turn_id=self.turn_id, how=how)
        self.leaving = leave(self._house, left)

    def _write_end(self, end: EndTurn) -> asyncio.Future[None]:
        """Announced by the commit itself, so that what was committed first goes out first."""

        def announce(done: asyncio.Future[None]) -> None:
            # One that fails is written again, or belongs to a turn that could not be begun.
            if worked(done):
                self._house.crash(CrashPoint.END_COMMITTED)
                self._house.announcer.turn(end)
                # Let go of: a turn that its log held would stay until garbage is collected.
                then, self._when_ended = self._when_ended, None
                if then is not None:
                    then(end)

        return self._told(self._house.store.end_turn(end), then=announce)

    def _said(
        self,
        record: Callable[..., Awaitable[None]],
        message: AssistantMessage | NoteMessage | CompactionMessage,
        usage: Usage,
        *,
        replies: int = 0,
    ) -> asyncio.Future[None]:
        """Counted at once, since whoever ends the turn meanwhile counts it too, and taken back
        where it was not kept. No two of these are on their way at the same time."""
        self.must_be_open()
        before = self.usage, self.replies

        def undo() -> None:
            self.usage, self.replies = before

        self.usage, self.replies = self.usage + usage, self.replies + replies
        at = self._house.clock.now()
        write = record(
            self.turn_id, session_id=self.session_id, message=message, usage=usage, at=at
        )
        return self._told(write, undo)

    def _told(
        self,
        write: Awaitable[None],
        undo: Callable[[], None] | None = None,
        *,
        then: Callable[[asyncio.Future[None]], None] | None = None,
    ) -> asyncio.Future[None]:
        """The write; those who look at the session hear of it from the commit itself, and `then` is
        called behind that, however it went. `undo` takes back what was reckoned with, where it
        fails: it may be written again."""
        self._agent.active_at = self._house.clock.now()
        durable = asyncio.ensure_future(write)

        def settled(done: asyncio.Future[None]) -> None:
            self._committed(done, undo)
            if then is not None:
                then(done)

        durable.add_done_callback(settled)
        return durable

    def _committed(self, done: asyncio.Future[None], undo: Callable[[], None] | None) -> None:
        if worked(done):
            self._house.feeds.committed(self.session_id)
        elif not done.cancelled():
            # The buffer may hold what the log does not: the next turn reads the log again.
            self._house.cache.drop(self.session_id)
            if undo is not None:
                undo()

    def _started(self, call_ids: Sequence[CallId], done: asyncio.Future[None]) -> None:
        if not done.cancelled() and not worked(done):
            self.started_calls.difference_update(call_ids)  # none of them runs

    def _when_begun(self, begin: BeginTurn, done: asyncio.Future[None]) -> None:
        """What goes out with the beginning; one that failed is begun again by its lane."""
        # With its first turn a session gets into the log, and gets its title.
        self._house.feeds.changed(self.session_id)
        if worked(done) and begin.deliveries:
            self._house.announcer.messages((), begin.deliveries)
