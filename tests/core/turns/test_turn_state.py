"""Tests of the tables of turn and lanes states, and of the diagram of them in ARCHITECTURE.md."""

import re
from pathlib import Path

import pytest

from holdfast.core.errors import InvalidTransition
from holdfast.core.turns.turn_state import (
    LANE_STATES,
    LANES_TRANSITIONS,
    LEFT_STATES,
    TURN_TRANSITIONS,
    LanesState,
    LaneState,
    TurnLifecycle,
    TurnState,
    lanes_transition,
)

PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"
DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n.*?```\n", re.DOTALL)
UPDATE = "python -m tests.core.turns.test_turn_state"
PATHS_TO_THE_END = [
    "starting running closing ended",
    "starting running waiting starting running closing ended",
    "starting running waiting stopping closing ended",  # /stop while it waits
    "starting stopping closing ended",  # /stop before there is an agent
    "starting closing ended",  # there is no agent for it
    "waiting closing ended",  # its session was suspended meanwhile
    "starting running closing discarded",  # the store refused its beginning
    "starting running parking closing ended",  # it ends before the next step boundary
    "starting running marked closing ended",  # it ends before it is cut
]
PATHS_TO_THE_NEXT_PROCESS = [
    "starting running parking parked",
    "starting parked",
    "starting unresumed",
    "starting running waiting parked",
    "starting running parking waiting parked",
    "starting running cut",
    "starting running marked cut",
    "starting running parking marked cut",
    "starting running marked waiting parked",
]


def state_diagram() -> str:
    """The table as a diagram."""
    arrows = [
        f"    {state} --> {to}"
        for state, allowed in TURN_TRANSITIONS.items()
        for to in TurnState
        if to in allowed
    ]
    ends = [f"    {state} --> [*]" for state, allowed in TURN_TRANSITIONS.items() if not allowed]
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> starting", "    [*] --> waiting"]
    return "\n".join([*lines, *arrows, *ends, "```", ""])


def lifecycle(state: TurnState) -> TurnLifecycle:
    return TurnLifecycle(state, on_shown_change=lambda: None)


@pytest.mark.parametrize("path", [*PATHS_TO_THE_END, *PATHS_TO_THE_NEXT_PROCESS])
def test_a_turn_takes_each_path_that_the_gateway_needs(path: str) -> None:
    """H3, H6, F5: and nothing leads out of the last state of a path."""
    first, *others = [TurnState(name) for name in path.split()]
    turn = lifecycle(first)
    for state in others:
        turn.move(state)
    assert TURN_TRANSITIONS[turn.state] == frozenset()


@pytest.mark.parametrize("state", list(TurnState))
def test_a_turn_transition_that_is_not_in_the_table_is_refused(state: TurnState) -> None:
    """H1, H6: what has ended, was parked or was cut is not run again by this process."""
    for to in set(TurnState) - TURN_TRANSITIONS[state]:
        turn = lifecycle(state)
        with pytest.raises(InvalidTransition):
            turn.move(to)
        assert turn.state is state


def test_a_turn_that_ended_or_was_left_is_not_run_again() -> None:
    """H1, H6: whatever else the table allows."""
    over = {TurnState.STOPPING, TurnState.CLOSING, TurnState.ENDED, TurnState.DISCARDED}
    for state in over | LEFT_STATES:
        with pytest.raises(InvalidTransition):
            lifecycle(state).move(TurnState.RUNNING)
    with pytest.raises(InvalidTransition):
        lifecycle(TurnState.STOPPING).move(TurnState.STARTING)
    with pytest.raises(InvalidTransition):
        lifecycle(TurnState.CLOSING).move(TurnState.CLOSING)  # it ends once


@pytest.mark.parametrize("state", list(LanesState))
def test_a_transition_of_the_lanes_that_is_not_in_the_table_is_refused(state: LanesState) -> None:
    """C1: a stop is never taken back."""
    for to in set(LanesState) - LANES_TRANSITIONS[state]:
        with pytest.raises(InvalidTransition):
            lanes_transition(state, to)
    assert LanesState.OPEN not in LANES_TRANSITIONS[state]


def test_only_a_change_that_is_shown_is_announced() -> None:
    changes: list[TurnState] = []
    turn = TurnLifecycle(TurnState.STARTING, on_shown_change=lambda: changes.append(turn.state))
    for state in (TurnState.RUNNING, TurnState.MARKED, TurnState.CLOSING, TurnState.ENDED):
        turn.move(state)
    assert changes == [TurnState.RUNNING, TurnState.ENDED]


def test_each_state_of_a_turn_is_shown_as_a_state_of_its_lane() -> None:
    assert set(LANE_STATES) == set(TurnState)
    assert set(LANE_STATES.values()) == set(LaneState)


def test_the_diagram_in_the_architecture_is_that_of_the_table() -> None:
    [found] = DIAGRAM.findall(PAGE.read_text())
    assert found == state_diagram(), f"to update it: {UPDATE}"


if __name__ == "__main__":
    PAGE.write_text(DIAGRAM.sub(lambda _: state_diagram(), PAGE.read_text()))
