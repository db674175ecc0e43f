"""The lane of a live session: its mailbox, its turn, and the loop that runs its turns.

`LanePause` reserves the session for a command.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.messages.events import TurnStarted
from holdfast.core.messages.inbox import InboxEnd, InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.retry import LANE_RETRY
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.text.translation import set_catalogue
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import OpenTurn
from holdfast.core.turns.turn_state import (
    LANE_STATES,
    LEFT_STATES,
    LanesState,
    LaneState,
    TurnState,
)
from holdfast.gateway.agents.session_agents import AgentLease, SessionAgents
from holdfast.gateway.agents.titles import NameSession
from holdfast.gateway.live.feeds import SessionFeeds
from holdfast.gateway.turns.admission import Admission
from holdfast.gateway.turns.turn import MarkTurn, Turn
from holdfast.gateway.turns.turn_factory import TurnFactory

log = logging.getLogger(__name__)


class LanePause:
    """Pauses a lane for a command that needs the session for itself. Until it is released, messages
    wait and no turn begins."""

    def __init__(self) -> None:
        self._paused = asyncio.Event()
        self._released = asyncio.Event()

    async def wait_for_release(self) -> None:
        """Return when the pause is released. Called by the lane between two turns."""
        self._paused.set()
        await self._released.wait()

    async def wait_until_paused(self) -> None:
        """Return once the lane is paused or closed."""
        await self._paused.wait()

    def release(self) -> None:
        self._paused.set()
        self._released.set()


class _NoAgent(HoldfastError):
    """No agent could be built. The text is the reason, for the sender of the message."""


class LaneOwner(Protocol):
    """What a lane uses of the owner of all lanes (`Lanes`)."""

    @property
    def state(self) -> LanesState: ...
    @property
    def changed(self) -> asyncio.Event:
        """Set when a lane has changed its state."""
        ...

    def remove(self, lane: "Lane") -> None:
        """Remove a lane that has nothing left to do."""
        ...


class Lane:
    """Owns one session's mailbox and its one open turn, and runs its turns in order, in a task of
    its own, until there is nothing left to answer.

    Only `restore` and the loop set `turn`, and only the loop clears it. `admit`, `stop` and the
    methods that stop the gateway are synchronous: when they return, the decision is made and its
    write is queued, before anything else can happen.
    """

    def __init__(
        self,
        session_id: SessionId,
        *,
        fresh: bool,
        owner: LaneOwner,
        turns: TurnFactory,
        agents: SessionAgents,
        admission: Admission,
        feeds: SessionFeeds,
        name_session: NameSession,
    ) -> None:
        self.session_id = session_id
        self.routes: set[SessionKey] = set()  # the routes that sent messages to it
        self.task: asyncio.Task[None] | None = None  # runs the loop, once it is started
        self.turn: Turn | None = None  # the open turn
        self.mailbox = admission.new_mailbox()
        self._pause: LanePause | None = None  # for a command that needs the session for itself
        # Why the session is fresh, until a turn has announced it.
        self._pending_reset: SessionReset | None = None
        # How the last turn was interrupted, until a turn has the note.
        self._pending_note: NoteMessage | None = None
        self._fresh = fresh  # the store has no row of the session yet
        self._owner = owner
        self._turns = turns
        self._agents = agents
        self._admission = admission
        self._feeds = feeds
        self._name_session = name_session

    def restore(self, open_turn: OpenTurn) -> None:
        """Take over a turn that an earlier process did not end. It runs before everything else."""
        self.turn = self._turns.restore(open_turn, on_shown_change=self._notify)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run the loop in a task of its own. The task begins at the next await, so changes made to
        the lane before that take effect first."""
        self.task = tasks.create_task(self._run_until_done(), name=f"lane {self.session_id}")

    async def _run_until_done(self) -> None:
        try:
            await self.run()
        finally:
            # No await since `run` found nothing to do, so no message can reach a lane that is
            # removed.
            if self._pause is not None:
                self._pause.release()
            self._owner.remove(self)

    @property
    def state(self) -> LaneState:
        """The state of the lane, as it is shown to people."""
        if self.turn is not None:
            return LANE_STATES[self.turn.state]
        return LaneState.STARTING if self.mailbox and self._pause is None else LaneState.IDLE

    @property
    def held(self) -> bool:
        """Whether the gateway is stopping, so that no further turn begins here."""
        match self._owner.state:
            case LanesState.OPEN:
                return False
            case LanesState.DRAINING:
                return not self._is_awaited_subagent
            case _:
                return True

    @property
    def _is_awaited_subagent(self) -> bool:
        """Whether this is the lane of a subagent that a turn waits for."""
        rows: Sequence[InboxRow] = self.mailbox if self.turn is None else self.turn.rows
        subagent = rows[0].inbound.subagent if rows else None
        return subagent is not None and subagent.kind is SubagentKind.FOREGROUND

    @property
    def queued(self) -> int:
        return len(self.mailbox)

    @property
    def busy(self) -> bool:
        """Whether a message is being answered, or is about to be."""
        return self.answering is not None or bool(self.mailbox)

    @property
    def in_flight(self) -> int:
        """The number of accepted messages whose end is not yet durable and published."""
        turn = self.turn
        return len(self.mailbox) + (0 if turn is None else len(turn.rows) + len(turn.steers))

    @property
    def running_turn(self) -> Turn | None:
        """The turn that an agent runs; None if there is none, or if its end is decided."""
        return self.turn if self.turn is not None and self.turn.is_running else None

    @property
    def answering(self) -> InboxId | None:
        """The message whose end will be the end of the open turn."""
        return None if self.turn is None else self.turn.answering

    @property
    def queued_since(self) -> float | None:
        """When the next message was accepted; None if no message waits."""
        return self.mailbox[0].accepted_at if self.mailbox else None

    @property
    def waiting_messages(self) -> Sequence[InboxRow]:
        """The messages that no turn has taken yet, in order."""
        steers = () if self.turn is None else self.turn.steers
        return (*steers, *self.mailbox)

    @property
    def can_pause(self) -> bool:
        """Whether no turn runs or is about to, and no command has paused the lane."""
        return not self.busy and self._pause is None

    def pause(self) -> LanePause:
        """Pause the lane: from now on no turn begins until the pause is released."""
        self._pause = LanePause()
        return self._pause

    def admit(
        self,
        row: InboxRow,
        *,
        reset: SessionReset | None = None,
        pending_note: NoteMessage | None = None,
    ) -> None:
        """Take an accepted message: it runs next, or acts on the running turn. `reset` is why the
        session is fresh, `pending_note` how it was interrupted; the next turn gets both."""
        self._pending_reset = reset or self._pending_reset
        self._pending_note = pending_note or self._pending_note
        self._feeds.live_step_replaced(self.session_id)  # what waits has changed
        turn = self.running_turn
        queued = row if turn is None else self._admission.admit(turn, row)
        if queued is not None:
            self.mailbox.append(queued)
        if turn is None:
            self._admission.reactions.track_recovered(row)
            if self.turn is not None:
                self.turn.approvals.wake()

    def stop(
        self, ends: Sequence[InboxEnd], deliveries: Sequence[NewDelivery], *, by: str = ""
    ) -> bool:
        """End the open turn for good; False if there is none. See `Turn.stop`."""
        return self.turn is not None and self.turn.stop(ends, deliveries, by=by)

    def drop_waiting_messages(self) -> list[InboxRow]:
        """Remove and return the messages that no turn has taken. The caller ends them: a message
        that has ended but is still in the mailbox would block everything behind it."""
        steers = [] if self.turn is None else self.turn.take_steers()
        dropped = [*steers, *self.mailbox.take_all()]
        if dropped:
            self._feeds.live_step_replaced(self.session_id)  # what waits has changed
        return dropped

    def park(self) -> None:
        """Park the running turn at its next step boundary, or at once if it is at one."""
        if self.running_turn is not None:
            self.running_turn.park()

    def leave(self, mark: MarkTurn) -> asyncio.Future[Any] | None:
        """Store how the gateway leaves the open turn; None if there is nothing to write."""
        return None if self.turn is None else self.turn.leave(mark)

    def cut(self, reason: str, *, detached: bool) -> bool:
        """Interrupt the running turn, which stays open. Returns whether this process cuts a turn. A
        marked turn is cut even if it has reached a step boundary since."""
        if self.turn is None:
            return False
        self.turn.cut(reason, detached=detached)
        return self.turn.state is TurnState.CUT

    def _notify(self) -> None:
        """Tell the feeds, and a stop that waits for this lane, that the state has changed. Readers
        are not told that their turn is cut: for them it continues in the next process."""
        if self._owner.state is not LanesState.CLOSED:
            self._feeds.session_changed(self.session_id)
        self._owner.changed.set()

    async def run(self) -> None:
        """Run turns until nothing is left to answer. A store failure delays them, but loses
        nothing."""
        failures = 0
        while self._has_more:
            if self._pause is not None:
                await self._pause.wait_for_release()
                self._pause = None
                continue
            try:
                await self._do_next()
                failures = 0
            except StoreError as error:
                wait = LANE_RETRY.wait(failures)
                log.error(
                    "Lane of session %s could not read or write the store: %s; retrying in %s s",
                    self.session_id,
                    error,
                    wait,
                    extra={"action": "lane_waiting_for_store", "session": self.session_id},
                )
                await asyncio.sleep(wait)
                failures += 1

    @property
    def _has_more(self) -> bool:
        """Whether there is work. While the gateway stops, no message is taken from the mailbox."""
        if self.turn is not None:
            return True
        return not self.held and bool(self._pause or self.mailbox)

    async def _do_next(self) -> None:
        """Continue the open turn according to its state; without one, begin the next turn."""
        rows: Sequence[InboxRow] = self.mailbox if self.turn is None else self.turn.rows
        if rows:  # texts of this task are for the people of this turn
            set_catalogue(self._turns.language_of(rows[0 if self.turn is None else -1]))
        try:
            if self.turn is None:
                self._notify()
                await self._begin_next(self.mailbox[0])
            else:
                await self._continue(self.turn)
        finally:
            if self.turn is not None and self.turn.state in (TurnState.ENDED, TurnState.DISCARDED):
                self.turn = None

    async def _continue(self, turn: Turn) -> None:
        match turn.state:
            case TurnState.STARTING:
                await self._resume(turn)
            case TurnState.WAITING:
                await self._wait(turn)
            case TurnState.STOPPING | TurnState.CLOSING:
                await self._close(turn)
            case _:
                assert turn.state in LEFT_STATES, "only `_run` runs a turn with an agent"
                await asyncio.get_running_loop().create_future()  # until this lane is cancelled

    async def _wait(self, turn: Turn) -> None:
        await turn.wait_until_woken(
            lambda: any(self._admission.interrupts(turn, row) for row in self.mailbox)
        )
        for session_id in {approval.asked_in for approval in turn.approvals.all}:
            self._feeds.session_changed(session_id)  # a subagent asks in the session of its parent
        if turn.state is TurnState.WAITING:
            if self.held:
                turn.park()
            else:
                turn.wake()

    async def _lease_agent(self, first: InboxRow) -> AgentLease:
        """Lease the agent for a turn that begins with this message. Raises `_NoAgent`."""
        try:
            lease = await self._agents.lease(self.session_id, first, fresh=self._fresh)
        except StoreError:
            raise
        except Exception as error:  # the boundary of a turn that could not begin
            about = {"action": "agent_build_failed", "session": self.session_id}
            log.exception(
                "Could not build the agent of session %s; its next message ends as failed",
                self.session_id,
                extra=about,
            )
            raise _NoAgent(
                "The agent for this conversation could not be built: {error}", error=error
            ) from error
        self._fresh = False  # this agent's turn, or a command meanwhile, gets it into the store
        return lease

    async def _begin_next(self, first: InboxRow) -> None:
        try:
            with await self._lease_agent(first) as lease:
                if self.held:
                    return
                await self.mailbox.wait_until_complete()
                recalled = await self._agents.recall(self.session_id, first)
                # A command may have ended the message, or the gateway may be stopping.
                if self.held or not self._is_next(first):
                    return
                self.turn = turn = self._turns.begin(
                    lease.agent,
                    self.mailbox.take_next(),
                    settings=lease.settings,
                    on_shown_change=self._notify,
                    reset=self._pending_reset,
                    recalled=None if recalled is None else (first.id, recalled),
                    interruption=self._pending_note,
                )
                await self._run(turn)
        except _NoAgent as error:
            if self._is_next(first):
                await self._fail_next(error)

    async def _fail_next(self, error: _NoAgent) -> None:
        """End the next message as failed, because no turn can begin for it."""
        # Removed from the mailbox before it ends, so that nothing else can end it.
        row = self.mailbox.popleft()
        self.turn = turn = self._turns.new_turn(
            self.session_id, [row], on_shown_change=self._notify
        )
        await turn.fail(str(error), text=error.for_person())
        await turn.close()

    async def _resume(self, turn: Turn) -> None:
        """Give the turn an agent again. If it is stopped meanwhile, or the gateway stops, its row
        is unchanged or marked as parked again."""
        if self.held:
            turn.park()
            return
        try:
            with await self._lease_agent(turn.rows[0]) as lease:
                await self._agents.save_prompt(lease.agent)
                if turn.state is TurnState.STARTING and not self.held:
                    # From here on, a write that reverts this is queued before any other.
                    await turn.write_resumed(lease.agent)
                if turn.state is not TurnState.STARTING:
                    return
                if self.held:
                    turn.park()
                    return
                turn.resume(lease.agent, settings=lease.settings)
                self._readmit(turn)
                await self._run(turn)
        except _NoAgent as error:
            await turn.fail(str(error), text=error.for_person())

    def _readmit(self, turn: Turn) -> None:
        """Let messages that came after the turn began act on it now. They could not before it was
        resumed."""
        for row in self.mailbox.take_all():
            if row.accepted_at < turn.started_at:
                self.mailbox.append(row)
            else:
                self.admit(row)
        # A message that interrupts it may belong to another session by now.
        if turn.is_running:
            turn.approvals.restore_withdrawn()

    async def _run(self, turn: Turn) -> None:
        """Run the turn until it waits, is left to the next process or has ended. Raises
        `StoreError` if the store refused its beginning: its messages run next again."""
        context = turn.context
        context.output.publish(TurnStarted(self.session_id, turn.turn_id, context.resumed))
        try:
            if turn.is_running:
                await turn.run()
            if turn.state in (TurnState.CLOSING, TurnState.ENDED):
                await self._close(turn)
            elif turn.state is TurnState.WAITING:
                self._pending_reset = self._pending_note = None
        finally:
            # Too late to steer: they run next. Not earlier, because a message whose write was under
            # way when the turn ended may be back in the queue.
            self.mailbox.extendleft(reversed(turn.detach()))
        if turn.state is TurnState.DISCARDED:
            self.mailbox.extendleft(reversed(turn.rows))
            raise StoreError("the beginning of the turn could not be stored")

    async def _close(self, turn: Turn) -> None:
        """Return once the end of the turn is durable, or the turn is discarded."""
        if await turn.has_begun():
            self._pending_reset = self._pending_note = None
        if turn.state in (TurnState.STOPPING, TurnState.CLOSING):
            await turn.close()
        if turn.state is TurnState.ENDED:
            self._name_after(turn)

    def _name_after(self, turn: Turn) -> None:
        """Let the answered turn give the session its title."""
        inbound = turn.rows[0].inbound if turn.rows else None
        if turn.answer is None or inbound is None:
            return
        if inbound.lasting and inbound.subagent is None:
            agent = turn.context.agent
            self._name_session(self.session_id, agent.messages, covered=agent.window.skipped)

    def _is_next(self, row: InboxRow) -> bool:
        return bool(self.mailbox) and self.mailbox[0] is row
