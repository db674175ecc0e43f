"""Parting: how a gateway that goes leaves a lane: held, and its turn parked, or marked and cut.

Plain functions, all of them: what they decide is decided before anything else can happen.
"""

import asyncio
from collections.abc import Sequence

from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.stop import LeftAs
from holdfast.core.turns.subagent import ChildKind
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.turns.lane import Lane


def hold(lane: Lane, *, children: bool) -> None:
    """No turn begins here any more; with `children`, one that another turn waits for still may."""
    lane.held = not (children and _works_for_another(lane))


def park(lane: Lane) -> None:
    """The running turn stands at its next step boundary, or is found to stand at one."""
    if lane.turn is None:
        return
    lane.turn.park()
    if lane.turn is None:
        lane.become(LaneState.PARKED)


def leave(lane: Lane, mark: LeftAs) -> asyncio.Future[None] | None:
    """The gateway is about to cut the running turn: it is marked, which is durable when what is
    returned is done. One that is parked or waits was not cut, and one that has ended is only to
    be written so. None: nothing is open."""
    if lane.closing is not None:
        return lane.closing.at_once()
    if lane.turn is not None and lane.turn.left is None:
        lane.turn.leave(mark)
    if lane.aside is not None:
        return lane.aside.leave()
    return None if lane.present is None else lane.present.leaving


def cut_short(lane: Lane) -> bool:
    """The turn here is not ended by this process, and not parked either. One that was marked is
    cut, also where it has come to a step boundary since."""
    turn = lane.present
    return turn is not None and turn.ending is None and turn.left is not LeftAs.PARKED


def cut(lane: Lane, reason: str, *, detached: bool) -> bool:
    """Interrupt the running turn, which stays open; whether there was one to cut."""
    was_cut_short = cut_short(lane)
    if lane.turn is not None:
        lane.turn.cut(reason, detached=detached)
    return was_cut_short


def _works_for_another(lane: Lane) -> bool:
    """A turn elsewhere waits for what is done here: it is a child's lane."""
    if lane.present is not None:
        rows: Sequence[InboxRow] = lane.present.rows
    else:
        rows = lane.aside.rows if lane.aside else lane.mailbox
    child = rows[0].inbound.child if rows else None
    return child is not None and child.kind is ChildKind.WAITED
