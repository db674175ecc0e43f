"""All live lanes, one for each session that has work, and the current targets of the routes in
use."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from holdfast.core.ids import SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.ports.command import Command, Committed, WriteFailed
from holdfast.core.ports.runtime import IdFactory
from holdfast.core.ports.store_commands import (
    RecordCallResult,
    RecordCallsStarted,
    RecordCompaction,
    RecordNote,
    RecordReply,
    RecordSteer,
)
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.turn import BeginTurn, EndTurn, OpenTurn
from holdfast.core.turns.turn_state import LanesState, LaneState, lanes_transition
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.turns.lane import Lane, LaneOwner, LanePause
from holdfast.gateway.turns.turn import MarkTurn, Turn

TURN_COMMANDS = (
    BeginTurn,
    RecordReply,
    RecordNote,
    RecordCompaction,
    RecordSteer,
    RecordCallsStarted,
    RecordCallResult,
    EndTurn,
)


class NewLane(Protocol):
    """Makes a lane (`Lane`)."""

    def __call__(
        self,
        session_id: SessionId,
        *,
        fresh: bool,
        owner: LaneOwner,
    ) -> Lane: ...


class Lanes:
    """Owns the live lanes, whether turns may begin, and the current targets of the routes in use.

    A route is remembered here only while the store may not have it yet: as long as its lane exists,
    or the command that pointed it elsewhere is being stored.
    """

    def __init__(
        self,
        new_lane: NewLane,
        *,
        agents: SessionAgents,
        new_id: IdFactory,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._new_lane = new_lane
        self._agents = agents
        self._new_id = new_id
        self._tasks = tasks
        self._lanes: dict[SessionId, Lane] = {}
        self._routes: dict[SessionKey, SessionId] = {}
        self.state = LanesState.OPEN  # changed by `LANES_TRANSITIONS` only
        self.changed = asyncio.Event()  # set when a lane has changed its state
        self._on_closed: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes.values()))

    def get(self, session_id: SessionId) -> Lane | None:
        return self._lanes.get(session_id)

    def on_lane_closed(self, subscriber: Callable[[], None]) -> None:
        """Call `subscriber` whenever a lane is removed, which means that its session is idle."""
        self._on_closed.append(subscriber)

    def on_committed(self, event: Committed) -> None:
        """Tell the turn that one of its commands is durable, if it is still the turn of its
        lane."""
        if (turn := self._turn_of(event.command)) is not None:
            turn.on_committed(event.command)

    def on_failed(self, event: WriteFailed) -> None:
        """Nothing of a command of a turn is stored. The buffer of the session's agent may hold it,
        so the next turn reads the transcript again."""
        if (session_id := event.command.scope.session_id) is not None:
            self._agents.drop(session_id)
        if (turn := self._turn_of(event.command)) is not None:
            turn.on_write_failed(event.command)

    def _turn_of(self, command: Command[Any]) -> Turn | None:
        assert isinstance(command, TURN_COMMANDS), "subscribed to turn commands only"
        lane = self._lanes.get(command.session_id)
        turn = None if lane is None else lane.turn
        return turn if turn is not None and turn.turn_id == command.turn_id else None

    def running_turn_of(self, session_id: SessionId) -> TurnId | None:
        lane = self._lanes.get(session_id)
        turn = None if lane is None else lane.running_turn
        return None if turn is None else turn.turn_id

    def count(self, state: LaneState) -> int:
        return sum(lane.state is state for lane in self._lanes.values())

    @property
    def parked_count(self) -> int:
        """The number of turns at a step boundary: parked, or waiting for a person."""
        return sum(lane.turn is not None and lane.turn.is_parked for lane in self)

    def session_of(self, route: SessionKey) -> SessionId | None:
        """The target of the route, if it is newer here than in the store."""
        return self._routes.get(route)

    def point_route(self, route: SessionKey, to: SessionId) -> Callable[[], None]:
        """Point a route to another session from now on. Call the returned function once that is
        durable."""
        before = self._routes.get(route)
        self._routes[route] = to

        def settled(*, undo: bool = False) -> None:
            if self._routes.get(route) != to:
                return
            # Only a lane that holds the route removes it later. A lane that a command has paused
            # exists but holds none, and the route would stay here forever.
            if undo and before is not None and self._holds_route(before, route):
                self._routes[route] = before
            elif undo or not self._holds_route(to, route):
                del self._routes[route]

        return settled

    def admit(
        self,
        row: InboxRow,
        *,
        known: SessionId | None,
        reset: SessionReset | None = None,
        pending_note: NoteMessage | None = None,
    ) -> None:
        """Give a message to the lane of its session. `known` is the target of the route in the
        store, `reset` why the session is fresh, `pending_note` how it was interrupted; the next
        turn gets both.

        A message that is committed while the gateway stops stays in the store for the successor.
        """
        if not self._accepts(row):
            return
        session_id = self._routes.get(row.route) or known
        fresh = session_id is None
        if session_id is None:
            session_id = SessionId(self._new_id("s"))
        lane = self._lanes.get(session_id) or self._open_lane(session_id, fresh=fresh)
        self._hold_route(row.route, lane)
        lane.admit(row, reset=reset, pending_note=pending_note)

    def pause_lane(self, session_id: SessionId) -> LanePause | None:
        """Pause the session's lane: no turn begins until the pause is released, and messages wait.
        None if a turn runs or is about to, or another command has paused the session."""
        lane = self._lanes.get(session_id)
        if self.state is LanesState.CLOSED or (lane is not None and not lane.can_pause):
            return None
        lane = lane or self._open_lane(session_id, fresh=False)
        return lane.pause()

    def take_waiting(self, session_id: SessionId, route: SessionKey) -> list[InboxRow]:
        """Remove and return the waiting messages of that route, which the caller admits elsewhere.
        The route no longer points to that session."""
        if self._routes.get(route) == session_id:
            del self._routes[route]
        lane = self._lanes.get(session_id)
        if lane is None:
            return []
        lane.routes.discard(route)
        waiting = lane.drop_waiting_messages()
        for row in waiting:
            if row.route != route:
                lane.admit(row)
        return [row for row in waiting if row.route == route]

    def readmit(self, rows: Iterable[InboxRow], session_id: SessionId) -> None:
        """Queue messages again that were removed from a lane but could not be ended."""
        for row in rows:
            self.admit(row, known=session_id)

    def resume(self, open_turn: OpenTurn, *, left: bool = False) -> None:
        """Resume a turn that was cut. With `left`, its routes point to another session by now, so
        the turn is only ended."""
        lane = self._open_lane(open_turn.turn.session_id, fresh=False)
        lane.restore(open_turn)
        if left:
            lane.stop([], [])
            return
        for row in open_turn.rows:
            self._hold_route(row.route, lane)

    async def wait_until_idle(self) -> None:
        """Return when no turn runs or is about to. A turn that waits for a person does not run."""
        while self.count(LaneState.RUNNING) or self.count(LaneState.STARTING):
            self.changed.clear()
            await self.changed.wait()

    def hold(self, *, allow_subagents: bool) -> None:
        """Let no further turn begin, because the gateway stops. With `allow_subagents`, subagents
        that a running turn waits for may still begin."""
        if not allow_subagents:
            self._hold_all()
        elif self.state is LanesState.OPEN:
            self.state = lanes_transition(self.state, LanesState.DRAINING)

    def _hold_all(self) -> None:
        if self.state in (LanesState.OPEN, LanesState.DRAINING):
            self.state = lanes_transition(self.state, LanesState.HELD)

    def park(self) -> None:
        """Park every running turn at its next step boundary. A subagent that has not begun does not
        begin; the turn that waits for it is parked."""
        self._hold_all()
        for lane in self:
            lane.park()

    def leave(self, mark: MarkTurn) -> list[asyncio.Future[Any]]:
        """Mark the turns that still run, with `mark`. When all returned futures are done, it is
        stored how each open turn is left. No turn begins after this, because it would be cut
        without a mark."""
        self._hold_all()
        marks = [lane.leave(mark) for lane in self]
        return [one for one in marks if one is not None]

    def cut(self, reason: str, *, detached: bool) -> int:
        """Interrupt every running turn where it is; returns how many. No turn begins after this."""
        self._close()
        return sum(lane.cut(reason, detached=detached) for lane in self)

    def _close(self) -> None:
        if self.state is not LanesState.CLOSED:
            self.state = lanes_transition(self.state, LanesState.CLOSED)

    async def close(self) -> None:
        """Close every lane. Everything unfinished is in the store."""
        self._close()
        running = [lane.task for lane in self if lane.task]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _accepts(self, row: InboxRow) -> bool:
        if self.state is LanesState.DRAINING:
            return row.inbound.subagent is not None
        return self.state is LanesState.OPEN

    def _open_lane(self, session_id: SessionId, *, fresh: bool) -> Lane:
        lane = self._lanes[session_id] = self._new_lane(session_id, fresh=fresh, owner=self)
        lane.start(self._tasks)
        return lane

    def remove(self, lane: Lane) -> None:
        """Remove a lane that has nothing left to do. Called by the lane."""
        del self._lanes[lane.session_id]
        for route in lane.routes:
            if self._routes.get(route) == lane.session_id:
                del self._routes[route]
        self.changed.set()
        for subscriber in self._on_closed:
            subscriber()

    def _holds_route(self, session_id: SessionId, route: SessionKey) -> bool:
        lane = self._lanes.get(session_id)
        return lane is not None and route in lane.routes

    def _hold_route(self, route: SessionKey, lane: Lane) -> None:
        self._routes[route] = lane.session_id
        lane.routes.add(route)
