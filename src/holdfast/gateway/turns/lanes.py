"""All live lanes: one for each session that has work, and where the routes in use point.

The second half is how a stopping gateway leaves a lane: held, then its turn parked, or marked and
cut. Those functions are synchronous: what they decide is decided before anything else can happen.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.core.ids import SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import LaneState, OpenTurn
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lane import Lane, LaneLoop, LanePause


class Lanes:
    """Owns the live lanes, and where the routes in use point right now.

    A route is remembered here only while the log may not have it yet: as long as its lane
    lives, or the command that pointed it elsewhere is on its way to the log.
    """

    def __init__(self, services: Services, *, tasks: asyncio.TaskGroup) -> None:
        self._services = services
        self._tasks = tasks
        self._lanes: dict[SessionId, Lane] = {}
        self._routes: dict[SessionKey, SessionId] = {}
        self._notifying = self._held = self._subagents_held = self._closed = False
        self.changed = asyncio.Event()  # a lane has changed its state, during a stop
        self.on_lane_closed: Callable[[], None] = lambda: None  # called when a lane is gone

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes.values()))

    def get(self, session_id: SessionId) -> Lane | None:
        return self._lanes.get(session_id)

    def running_turn_of(self, session_id: SessionId) -> TurnId | None:
        lane = self._lanes.get(session_id)
        turn = None if lane is None else lane.running_turn
        return None if turn is None else turn.turn_id

    def count(self, state: LaneState) -> int:
        return sum(lane.state is state for lane in self._lanes.values())

    @property
    def parked_count(self) -> int:
        """How many turns are at a step boundary: parked, or waiting for a person."""
        resting = (LaneState.PARKED, LaneState.WAITING)
        return sum(lane.state in resting and not is_cut_short(lane) for lane in self)

    def session_of(self, route: SessionKey) -> SessionId | None:
        """Where the route points, if that is newer here than in the store."""
        return self._routes.get(route)

    def point_route(self, route: SessionKey, to: SessionId) -> Callable[[], None]:
        """Point a route elsewhere from this instant; call what is returned once it is durable."""
        before = self._routes.get(route)
        self._routes[route] = to

        def settled(*, undo: bool = False) -> None:
            if self._routes.get(route) != to:
                return
            # Only a lane that holds the route forgets it later: a lane that a command has paused
            # exists but holds none, and the route would stay here for ever.
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
        """Give a message to the lane of its session. `known`: where the route points in the
        store. `reset`: why the session is fresh; `pending_note`: how it was interrupted; both go
        into its next turn.

        A message that commits while the gateway stops stays in the store for the successor.
        """
        if not self._accepts(row):
            return
        session_id = self._routes.get(row.route) or known
        fresh = session_id is None
        if session_id is None:
            session_id = SessionId(self._services.new_id("s"))
        lane = self._lanes.get(session_id) or self._open_lane(session_id, fresh=fresh)
        lane.pending_reset = reset or lane.pending_reset
        lane.pending_note = pending_note or lane.pending_note
        self._hold_route(row.route, lane)
        lane.admit(row)

    def pause_lane(self, session_id: SessionId) -> LanePause | None:
        """From this instant no turn of the session begins until the pause is released; messages
        wait. None: a turn runs or is about to, or another command has paused the session."""
        lane = self._lanes.get(session_id)
        if self._closed or (lane is not None and (lane.busy or lane.pause is not None)):
            return None
        lane = lane or self._open_lane(session_id, fresh=False)
        lane.pause = LanePause()
        return lane.pause

    def take_waiting(self, session_id: SessionId, route: SessionKey) -> list[InboxRow]:
        """Take the waiting messages of that route, which the caller admits elsewhere. The route no
        longer points to that session."""
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
        """Run messages after all that were taken from a lane and could not be ended."""
        for row in rows:
            self.admit(row, known=session_id)

    def resume(self, open_turn: OpenTurn, *, left: bool = False) -> None:
        """Resume a turn that was cut. `left`: its routes point to another session by now, so the
        turn is only ended."""
        lane = self._open_lane(open_turn.turn.session_id, fresh=False)
        lane.resume(open_turn)
        if left:
            lane.stop([], [])
            return
        for row in open_turn.rows:
            self._hold_route(row.route, lane)

    async def wait_until_idle(self) -> None:
        """Returns when no turn runs or is about to. A turn that waits for a person does not run."""
        self._notify_changes()
        while self.count(LaneState.RUNNING) or self.count(LaneState.STARTING):
            self.changed.clear()
            await self.changed.wait()

    def hold(self, *, allow_subagents: bool) -> None:
        """The gateway stops: from now on no turn begins, except, with `allow_subagents`, of
        subagents that a running turn waits for."""
        self._held, self._subagents_held = True, not allow_subagents
        self._notify_changes()
        for lane in self:
            hold_lane(lane, allow_subagents=allow_subagents)

    def _notify_changes(self) -> None:
        """Set `changed` at every state change from now on. Before a stop nothing waits for it."""
        self._notifying = True
        for lane in self:
            lane.on_change = self.changed.set

    def park(self) -> None:
        """Park every running turn at its next step boundary. A subagent that has not begun does
        not begin: the turn that waits for it is parked."""
        self._hold_all()
        for lane in self:
            park_lane(lane)

    def _hold_all(self) -> None:
        self._held = self._subagents_held = True
        for lane in self:
            hold_lane(lane, allow_subagents=False)

    def leave(self, reason: TurnExitReason) -> list[asyncio.Future[None]]:
        """Mark the turns that still run. When all returned futures are done, it is durable how each
        open turn is left. No turn begins after this: it would be cut without a mark."""
        self._hold_all()
        marks = [leave_lane(lane, reason) for lane in self]
        return [one for one in marks if one is not None]

    def cut(self, reason: str, *, detached: bool) -> int:
        """Interrupt every running turn where it is; returns how many. None begins after this."""
        self._closed = True
        return sum(cut_lane(lane, reason, detached=detached) for lane in self)

    async def close(self) -> None:
        """End every lane; everything unfinished is in the store."""
        self._closed = True
        running = [lane.task for lane in self if lane.task]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _accepts(self, row: InboxRow) -> bool:
        if self._closed or self._subagents_held:
            return False
        return not self._held or row.inbound.subagent is not None

    def _open_lane(self, session_id: SessionId, *, fresh: bool) -> Lane:
        lane = self._lanes[session_id] = Lane(session_id, services=self._services)
        loop = LaneLoop(lane, services=self._services, fresh=fresh)
        lane.on_change = self.changed.set if self._notifying else None
        lane.task = self._tasks.create_task(self._run_lane(lane, loop), name=f"lane {session_id}")
        return lane

    async def _run_lane(self, lane: Lane, loop: LaneLoop) -> None:
        try:
            await loop.run()
        finally:
            # No await since `run` saw an empty mailbox: no message can reach a lane that is gone.
            del self._lanes[lane.session_id]
            if lane.pause is not None:
                lane.pause.release()
            for route in lane.routes:
                if self._routes.get(route) == lane.session_id:
                    del self._routes[route]
            self.changed.set()
            self.on_lane_closed()

    def _holds_route(self, session_id: SessionId, route: SessionKey) -> bool:
        lane = self._lanes.get(session_id)
        return lane is not None and route in lane.routes

    def _hold_route(self, route: SessionKey, lane: Lane) -> None:
        self._routes[route] = lane.session_id
        lane.routes.add(route)


def hold_lane(lane: Lane, *, allow_subagents: bool) -> None:
    """No turn begins here any more. With `allow_subagents`, one that a turn waits for still may."""
    lane.held = not (allow_subagents and _is_awaited_subagent(lane))


def park_lane(lane: Lane) -> None:
    """Park the running turn at its next step boundary, or where it is if it is at one."""
    if lane.running_turn is None:
        return
    lane.running_turn.park()
    if lane.running_turn is None:
        lane.set_state(LaneState.PARKED)


def leave_lane(lane: Lane, reason: TurnExitReason) -> asyncio.Future[None] | None:
    """Mark the running turn before the gateway cuts it; the mark is durable when the returned
    future is done. A turn that is parked or waits is not cut; of one that has ended, only the end
    is written. None: no turn is open."""
    if lane.closing_write is not None:
        return lane.closing_write.try_now()
    if lane.running_turn is not None and lane.running_turn.exit_reason is None:
        lane.running_turn.leave(reason)
    if lane.dormant_turn is not None:
        return lane.dormant_turn.leave()
    return None if lane.current_turn is None else lane.current_turn.exit_write


def is_cut_short(lane: Lane) -> bool:
    """Whether this process neither ends the turn nor parks it. A marked turn is cut even if it
    has reached a step boundary since."""
    turn = lane.current_turn
    return (
        turn is not None and turn.ending is None and turn.exit_reason is not TurnExitReason.PARKED
    )


def cut_lane(lane: Lane, reason: str, *, detached: bool) -> bool:
    """Interrupt the running turn, which stays open; whether there was one to cut."""
    was_cut_short = is_cut_short(lane)
    if lane.running_turn is not None:
        lane.running_turn.cut(reason, detached=detached)
    return was_cut_short


def _is_awaited_subagent(lane: Lane) -> bool:
    """Whether this is the lane of a subagent that a turn waits for."""
    if lane.current_turn is not None:
        rows: Sequence[InboxRow] = lane.current_turn.rows
    else:
        rows = lane.dormant_turn.rows if lane.dormant_turn else lane.mailbox
    subagent = rows[0].inbound.subagent if rows else None
    return subagent is not None and subagent.kind is SubagentKind.FOREGROUND
