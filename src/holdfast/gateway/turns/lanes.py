"""All live lanes, where the routes in use point, and how a stopping gateway holds, parks, marks and cuts them."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import LaneState, OpenTurn
from holdfast.gateway.services import Services
from holdfast.gateway.turns.lane import Lane, LaneLoop, LanePause


# MERGED holdfast.gateway.turns.parting: Parting: how a gateway that goes leaves a lane: held, and its turn parked, or marked and cut.
#
# Plain functions, all of them: what they decide is decided before anything else can happen.
def hold_lane(lane: Lane, *, allow_subagents: bool) -> None:
    """No turn begins here any more; with `children`, one that another turn waits for still may."""
    lane.held = not (allow_subagents and _is_awaited_subagent(lane))


def park_lane(lane: Lane) -> None:
    """The running turn stands at its next step boundary, or is found to stand at one."""
    if lane.running_turn is None:
        return
    lane.running_turn.park()
    if lane.running_turn is None:
        lane.set_state(LaneState.PARKED)


def leave_lane(lane: Lane, reason: TurnExitReason) -> asyncio.Future[None] | None:
    """The gateway is about to cut the running turn: it is marked, which is durable when what is
    returned is done. One that is parked or waits was not cut, and one that has ended is only to
    be written so. None: nothing is open."""
    if lane.closing_write is not None:
        return lane.closing_write.try_now()
    if lane.running_turn is not None and lane.running_turn.exit_reason is None:
        lane.running_turn.leave(reason)
    if lane.dormant_turn is not None:
        return lane.dormant_turn.leave()
    return None if lane.current_turn is None else lane.current_turn.exit_write


def is_cut_short(lane: Lane) -> bool:
    """The turn here is not ended by this process, and not parked either. One that was marked is
    cut, also where it has come to a step boundary since."""
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
    """A turn elsewhere waits for what is done here: it is a child's lane."""
    if lane.current_turn is not None:
        rows: Sequence[InboxRow] = lane.current_turn.rows
    else:
        rows = lane.dormant_turn.rows if lane.dormant_turn else lane.mailbox
    child = rows[0].inbound.subagent if rows else None
    return child is not None and child.kind is SubagentKind.FOREGROUND


# MERGED holdfast.gateway.turns.lanes: The lanes: one for each session that has something to do, and none for those that have not.
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
        self.changed = asyncio.Event()  # the state of a lane has changed, while somebody watches
        self.on_lane_closed: Callable[[], None] = lambda: None  # told when a lane has gone away

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes.values()))

    def get(self, session_id: SessionId) -> Lane | None:
        return self._lanes.get(session_id)

    def count(self, state: LaneState) -> int:
        return sum(lane.state is state for lane in self._lanes.values())

    @property
    def parked_count(self) -> int:
        """How many turns stand at a step boundary, parked there or for a person's word."""
        resting = (LaneState.PARKED, LaneState.WAITING)
        return sum(lane.state in resting and not is_cut_short(lane) for lane in self)

    def session_of(self, route: SessionKey) -> SessionId | None:
        """Where the route points, if that is known here better than in the log."""
        return self._routes.get(route)

    def point_route(self, route: SessionKey, to: SessionId) -> Callable[[], None]:
        """Point a route elsewhere from this instant; call what is returned once it is durable."""
        before = self._routes.get(route)
        self._routes[route] = to

        def settled(*, undo: bool = False) -> None:
            if self._routes.get(route) != to:
                return
            # By who holds the route: a lane that a command has shut is there, and holds none, and
            # what it does not hold would be remembered for ever.
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
        """Give a message to the lane of its session. `known`: where the log has the route;
        `opening`: why the session is fresh, and `note_owed`: how it was cut, both to be told with
        its next turn.

        One whose commit comes through while the gateway stops stays in the log for the next.
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
        """From this instant no turn of the session begins, until the barrier is lifted; what is
        said to it waits. None: a turn runs or is owed, or somebody else has shut it."""
        lane = self._lanes.get(session_id)
        if self._closed or (lane is not None and (lane.busy or lane.pause is not None)):
            return None
        lane = lane or self._open_lane(session_id, fresh=False)
        lane.pause = LanePause()
        return lane.pause

    def take_waiting(self, session_id: SessionId, route: SessionKey) -> list[InboxRow]:
        """What that route has waiting there, which is the caller's to admit elsewhere: the route
        is not remembered to point there any more."""
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
        """What was taken from a lane to be ended, and could not be, is run after all."""
        for row in rows:
            self.admit(row, known=session_id)

    def resume(self, open_turn: OpenTurn, *, left: bool = False) -> None:
        """Go on with a turn that was cut. `left`: its session was left for another, where its
        routes go on, so that it is only ended."""
        lane = self._open_lane(open_turn.turn.session_id, fresh=False)
        lane.resume(open_turn)
        if left:
            lane.stop([], [])
            return
        for row in open_turn.rows:
            self._hold_route(row.route, lane)

    async def wait_until_idle(self) -> None:
        """Returns when no turn runs or is about to. Who waits for a person does not run."""
        self._notify_changes()
        while self.count(LaneState.RUNNING) or self.count(LaneState.STARTING):
            self.changed.clear()
            await self.changed.wait()

    def hold(self, *, allow_subagents: bool) -> None:
        """The gateway stops: from now on no turn begins, but for `children` that a running one
        waits for."""
        self._held, self._subagents_held = True, not allow_subagents
        self._notify_changes()
        for lane in self:
            hold_lane(lane, allow_subagents=allow_subagents)

    def _notify_changes(self) -> None:
        """Every change is news from now on; as long as nobody waits for any, none is told."""
        self._notifying = True
        for lane in self:
            lane.on_change = self.changed.set

    def park(self) -> None:
        """Every running turn stands at its next step boundary. A child that has not begun need
        not: whoever waits for it is parked."""
        self._hold_all()
        for lane in self:
            park_lane(lane)

    def _hold_all(self) -> None:
        self._held = self._subagents_held = True
        for lane in self:
            hold_lane(lane, allow_subagents=False)

    def leave(self, reason: TurnExitReason) -> list[asyncio.Future[None]]:
        """Mark what still runs. All that is returned is done when it is durable how each open turn
        is left. Nothing begins behind it: that would be cut without a mark."""
        self._hold_all()
        leaving = [leave_lane(lane, reason) for lane in self]
        return [one for one in leaving if one is not None]

    def cut(self, reason: str, *, detached: bool) -> int:
        """Interrupt every turn that runs, where it stands; how many did. None begins after this."""
        self._closed = True
        return sum(cut_lane(lane, reason, detached=detached) for lane in self)

    async def close(self) -> None:
        """End every lane; all that is owed is in the log."""
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
        course = LaneLoop(lane, services=self._services, fresh=fresh)
        lane.on_change = self.changed.set if self._notifying else None
        lane.task = self._tasks.create_task(self._run_lane(lane, course), name=f"lane {session_id}")
        return lane

    async def _run_lane(self, lane: Lane, loop: LaneLoop) -> None:
        try:
            await loop.run()
        finally:
            # No await since `run` saw an empty mailbox: nobody can reach a lane that is gone.
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
