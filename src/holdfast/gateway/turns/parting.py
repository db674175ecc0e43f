"""Parting: how a gateway that goes leaves a lane: held, and its turn parked, or marked and cut.

Plain functions, all of them: what they decide is decided before anything else can happen.
"""

import asyncio
from collections.abc import Sequence

from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.stop import TurnExitReason
from holdfast.core.turns.subagent import SubagentKind
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.turns.lane import Lane


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
