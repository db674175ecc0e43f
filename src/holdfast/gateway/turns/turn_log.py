"""What a turn writes: its beginning, each step, and its one end, in this order."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import CallId, InboxId, SessionId, TurnId
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CompactionMessage,
    NoteMessage,
    ToolMessage,
    UserMessage,
)
from holdfast.core.ports.command import Command
from holdfast.core.ports.store_commands import (
    LeaveTurn,
    RecordCallResult,
    RecordCallsStarted,
    RecordCompaction,
    RecordNote,
    RecordReply,
    RecordSteer,
)
from holdfast.core.turns.stop import LeftTurn, TurnExitReason
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn, Usage
from holdfast.gateway.durable_writes import succeeded, wait_uncancelled
from holdfast.gateway.services import Services


class TurnClosed(HoldfastError):
    """The turn has ended; nothing more may be written in its name."""


def write_exit(services: Services, left: LeftTurn) -> asyncio.Future[None]:
    """On its way to the log. A failure is nobody's to mend: the next start takes it for a crash."""
    point = (
        CrashPoint.TURN_PARKED
        if left.exit_reason is TurnExitReason.PARKED
        else CrashPoint.TURN_MARKED
    )
    durable = asyncio.ensure_future(
        services.store.write(
            LeaveTurn(
                session_id=left.session_id,
                turn_id=TurnId(left.turn_id),
                exit_reason=left.exit_reason,
                at=services.clock.now(),
            )
        )
    )
    durable.add_done_callback(lambda done: services.crash(point) if succeeded(done) else None)
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
        services: Services,
        resumed: OpenTurn | None,
    ) -> None:
        self.turn_id = turn_id
        self.usage = resumed.usage if resumed else Usage()
        self.replies = resumed.model_steps if resumed else 0
        self.started_calls = set(resumed.started_calls if resumed else ())
        self.started_at = resumed.turn.started_at if resumed else services.clock.now()
        self.ending: EndTurn | None = None
        self._agent = agent
        self._services = services
        self._on_ended: Callable[[EndTurn], None] | None = None  # until its commit has called it
        self.exit_reason: TurnExitReason | None = None  # how this process leaves it, where it does
        self.exit_write: asyncio.Future[None] | None = None  # that on its way to the log
        self._cut = False
        self._begin_write: asyncio.Future[None] | None = None
        self._end_write: asyncio.Future[None] | None = None

    @property
    def session_id(self) -> SessionId:
        return self._agent.session_id

    @property
    def closed(self) -> bool:
        """Ended, or left by a gateway that stops: either way nothing more is written."""
        return self._cut or self.ending is not None

    def check_open(self) -> None:
        if self.closed:
            raise TurnClosed(f"turn {self.turn_id} has ended")

    def begin(self, begin: BeginTurn) -> None:
        """Open the turn, and do not wait: the model may think while the disk turns.

        Writes keep their order, so nothing of the turn is durable before its beginning is.
        """
        self.started_at = begin.at
        write = self._services.store.write(begin)
        self._begin_write = self._write(write, on_done=lambda done: self._on_begun(begin, done))
        for message in begin.messages:
            self._agent.append(message)
        self._services.crash(CrashPoint.TURN_BEGUN)

    async def has_begun(self) -> bool:
        """Whether the beginning is in the log; a turn that is gone on with has begun long ago."""
        try:
            if self._begin_write is not None:
                await wait_uncancelled(self._begin_write)
        except StoreError:
            return False
        return True

    def record_reply(self, message: AssistantMessage, usage: Usage) -> Awaitable[None]:
        return self._record_message(RecordReply, message, usage, replies=1)

    def record_note(self, message: NoteMessage, usage: Usage) -> Awaitable[None]:
        return self._record_message(RecordNote, message, usage)

    def record_compaction(self, message: CompactionMessage, usage: Usage) -> Awaitable[None]:
        return self._record_message(RecordCompaction, message, usage)

    def record_steer(self, inbox_id: InboxId, message: UserMessage) -> asyncio.Future[None]:
        self.check_open()
        return self._write(
            self._services.store.write(
                RecordSteer(
                    turn_id=self.turn_id,
                    session_id=self.session_id,
                    inbox_id=inbox_id,
                    message=message,
                    at=self._services.clock.now(),
                )
            )
        )

    def record_calls_started(
        self, call_ids: Sequence[CallId], *, allowed_by: Mapping[CallId, str]
    ) -> Awaitable[None]:
        self.check_open()
        self.started_calls.update(call_ids)
        started = asyncio.ensure_future(
            self._services.store.write(
                RecordCallsStarted(
                    turn_id=self.turn_id,
                    session_id=self.session_id,
                    call_ids=call_ids,
                    allowed=allowed_by,
                    at=self._services.clock.now(),
                )
            )
        )
        started.add_done_callback(lambda done: self._on_started(call_ids, done))
        return started

    def record_call_result(self, message: ToolMessage) -> asyncio.Future[None]:
        self.check_open()
        self.started_calls.discard(message.call_id)
        return self._write(
            self._services.store.write(
                RecordCallResult(
                    turn_id=self.turn_id,
                    session_id=self.session_id,
                    message=message,
                    at=self._services.clock.now(),
                )
            ),
            lambda: self.started_calls.add(message.call_id),  # as far as the log knows, it runs
        )

    def end(self, end: EndTurn, *, on_ended: Callable[[EndTurn], None]) -> None:
        """Close the turn: `end` is on its way to the log, and joins the buffer at once. `then` is
        called by its commit."""
        self.check_open()
        self.ending, self._on_ended = end, on_ended
        self._services.crash(CrashPoint.END_SUBMITTED)
        for message in end.messages:
            self._agent.append(message)
        self._end_write = self._write_end(end)

    async def wait_ended(self) -> None:
        """Returns once what closed the turn is durable. After a failure, asking writes again."""
        assert self.ending is not None, "only a turn that was ended has an end"
        writing = self._end_write or self._write_end(self.ending)
        self._end_write = None
        await wait_uncancelled(writing)

    def cut(self) -> None:
        """The gateway stops: the turn stays open, and nothing more is written in its name."""
        self.check_open()
        self._cut = True

    def leave(self, reason: TurnExitReason) -> None:
        """The gateway goes, and this is how it leaves the turn. One that is parked is closed: its
        next step is a successor's. One that is marked may still come to its end until it is cut."""
        self.check_open()
        self.exit_reason = reason
        self._cut = reason is TurnExitReason.PARKED
        left = LeftTurn(session_id=self.session_id, turn_id=self.turn_id, exit_reason=reason)
        self.exit_write = write_exit(self._services, left)

    def _write_end(self, end: EndTurn) -> asyncio.Future[None]:
        """Announced by the commit itself, so that what was committed first goes out first."""

        def announce(done: asyncio.Future[None]) -> None:
            # One that fails is written again, or belongs to a turn that could not be begun.
            if succeeded(done):
                self._services.crash(CrashPoint.END_COMMITTED)
                self._services.publisher.turn_ended(end)
                # Let go of: a turn that its log held would stay until garbage is collected.
                then, self._on_ended = self._on_ended, None
                if then is not None:
                    then(end)

        return self._write(self._services.store.write(end), on_done=announce)

    def _record_message(
        self,
        record: Callable[..., Command[None]],
        message: AssistantMessage | NoteMessage | CompactionMessage,
        usage: Usage,
        *,
        replies: int = 0,
    ) -> asyncio.Future[None]:
        """Counted at once, since whoever ends the turn meanwhile counts it too, and taken back
        where it was not kept. No two of these are on their way at the same time."""
        self.check_open()
        before = self.usage, self.replies

        def undo() -> None:
            self.usage, self.replies = before

        self.usage, self.replies = self.usage + usage, self.replies + replies
        at = self._services.clock.now()
        command = record(
            turn_id=self.turn_id, session_id=self.session_id, message=message, usage=usage, at=at
        )
        return self._write(self._services.store.write(command), undo)

    def _write(
        self,
        write: Awaitable[None],
        undo: Callable[[], None] | None = None,
        *,
        on_done: Callable[[asyncio.Future[None]], None] | None = None,
    ) -> asyncio.Future[None]:
        """The write; those who look at the session hear of it from the commit itself, and `then` is
        called behind that, however it went. `undo` takes back what was reckoned with, where it
        fails: it may be written again."""
        self._agent.active_at = self._services.clock.now()
        durable = asyncio.ensure_future(write)

        def settled(done: asyncio.Future[None]) -> None:
            self._on_write_done(done, undo)
            if on_done is not None:
                on_done(done)

        durable.add_done_callback(settled)
        return durable

    def _on_write_done(self, done: asyncio.Future[None], undo: Callable[[], None] | None) -> None:
        if succeeded(done):
            self._services.feeds.session_committed(self.session_id)
        elif not done.cancelled():
            # The buffer may hold what the log does not: the next turn reads the log again.
            self._services.cache.drop(self.session_id)
            if undo is not None:
                undo()

    def _on_started(self, call_ids: Sequence[CallId], done: asyncio.Future[None]) -> None:
        if not done.cancelled() and not succeeded(done):
            self.started_calls.difference_update(call_ids)  # none of them runs

    def _on_begun(self, begin: BeginTurn, done: asyncio.Future[None]) -> None:
        """What goes out with the beginning; one that failed is begun again by its lane."""
        # With its first turn a session gets into the log, and gets its title.
        self._services.feeds.session_changed(self.session_id)
        if succeeded(done) and begin.deliveries:
            self._services.publisher.messages_ended((), begin.deliveries)
