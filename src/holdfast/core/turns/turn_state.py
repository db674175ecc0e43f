"""The states of a live turn, of its lane and of all lanes, with their tables of transitions."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from holdfast.core.errors import InvalidTransition


class TurnState(StrEnum):
    """What a turn does in this process. Its stored state is a `TurnRowState`."""

    STARTING = "starting"  # no agent runs it yet: it is new, resumed or woken
    RUNNING = "running"  # its agent runs
    WAITING = "waiting"  # for a person, at a step boundary and without an agent
    PARKING = "parking"  # its agent runs, up to the next step boundary
    MARKED = "marked"  # its agent runs, but its row says that this process interrupts it
    PARKED = "parked"  # left at a step boundary: the next process resumes it without a note
    # Left before an agent ran it here: its row is unchanged, and says how it was left earlier.
    UNRESUMED = "unresumed"
    CUT = "cut"  # left in the middle of a step: the next process resumes it with a note
    STOPPING = "stopping"  # stopped while no agent ran it: its end is not decided yet
    CLOSING = "closing"  # its end is decided, but not durable
    ENDED = "ended"
    DISCARDED = "discarded"  # the store refused its beginning: its messages begin another turn


_T = TurnState
TURN_TRANSITIONS: Mapping[TurnState, frozenset[TurnState]] = {
    _T.STARTING: frozenset({_T.RUNNING, _T.PARKED, _T.UNRESUMED, _T.STOPPING, _T.CLOSING}),
    _T.RUNNING: frozenset({_T.WAITING, _T.PARKING, _T.MARKED, _T.CUT, _T.CLOSING}),
    _T.WAITING: frozenset({_T.STARTING, _T.PARKED, _T.STOPPING, _T.CLOSING}),
    _T.PARKING: frozenset({_T.WAITING, _T.PARKED, _T.MARKED, _T.CUT, _T.CLOSING}),
    # To waiting: it had asked before it was marked, so its row says that it is parked.
    _T.MARKED: frozenset({_T.WAITING, _T.CUT, _T.CLOSING}),
    _T.PARKED: frozenset(),
    _T.UNRESUMED: frozenset(),
    _T.CUT: frozenset(),
    _T.STOPPING: frozenset({_T.CLOSING}),
    _T.CLOSING: frozenset({_T.ENDED, _T.DISCARDED}),
    _T.ENDED: frozenset(),
    _T.DISCARDED: frozenset(),
}
AGENT_STATES = frozenset({_T.RUNNING, _T.PARKING, _T.MARKED})
"""An agent runs the turn and may write."""
LEFT_STATES = frozenset({_T.PARKED, _T.UNRESUMED, _T.CUT})
"""The turn is left to the next process."""


class LaneState(StrEnum):
    """What a lane does, as shown to people; derived from the turn and the mailbox."""

    IDLE = "idle"
    STARTING = "starting"  # a turn is due and has no agent yet
    RUNNING = "running"
    WAITING = "waiting"  # for a person: an approval or an answer
    PARKED = "parked"  # at a step boundary, for a successor to continue


LANE_STATES: Mapping[TurnState, LaneState] = {
    _T.STARTING: LaneState.STARTING,
    _T.RUNNING: LaneState.RUNNING,
    _T.WAITING: LaneState.WAITING,
    _T.PARKING: LaneState.RUNNING,
    _T.MARKED: LaneState.RUNNING,
    _T.PARKED: LaneState.PARKED,
    _T.UNRESUMED: LaneState.PARKED,
    _T.CUT: LaneState.PARKED,
    _T.STOPPING: LaneState.RUNNING,
    _T.CLOSING: LaneState.RUNNING,
    _T.ENDED: LaneState.IDLE,
    _T.DISCARDED: LaneState.IDLE,
}
"""How the lane of a turn is shown."""


class LanesState(StrEnum):
    """Which turns may begin. A stop only ever restricts this."""

    OPEN = "open"  # all
    DRAINING = "draining"  # subagents that a running turn waits for
    HELD = "held"  # none
    CLOSED = "closed"  # none, and running ones are interrupted


_L = LanesState
LANES_TRANSITIONS: Mapping[LanesState, frozenset[LanesState]] = {
    _L.OPEN: frozenset({_L.DRAINING, _L.HELD, _L.CLOSED}),
    _L.DRAINING: frozenset({_L.HELD, _L.CLOSED}),
    _L.HELD: frozenset({_L.CLOSED}),
    _L.CLOSED: frozenset(),
}


def turn_transition(state: TurnState, to: TurnState) -> TurnState:
    if to not in TURN_TRANSITIONS[state]:
        raise InvalidTransition("a turn cannot go from {state} to {to}", state=state, to=to)
    return to


def lanes_transition(state: LanesState, to: LanesState) -> LanesState:
    if to not in LANES_TRANSITIONS[state]:
        raise InvalidTransition("the lanes cannot go from {state} to {to}", state=state, to=to)
    return to


class TurnLifecycle:
    """Owns the state of one turn; only `move` changes `state`."""

    def __init__(self, state: TurnState, *, on_shown_change: Callable[[], None]) -> None:
        self.state = state
        self._on_shown_change = on_shown_change  # called when the state of its lane changes

    def move(self, to: TurnState) -> None:
        """Change the state. Raises `InvalidTransition` if `TURN_TRANSITIONS` does not allow it."""
        shown = LANE_STATES[self.state]
        self.state = turn_transition(self.state, to)
        if LANE_STATES[to] is not shown:
            self._on_shown_change()
