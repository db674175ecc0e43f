"""How the house stands: what runs, waits and is owed at this instant, from memory alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Any

import msgspec

from holdfast.core.child import ChildKind
from holdfast.core.facts import TurnFacts
from holdfast.core.inbox import InboxRow
from holdfast.core.turn import LaneState
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.house import House
from holdfast.gateway.lane import Lane
from holdfast.gateway.lanes import Lanes

LISTED = 100  # turns; the loop must not stand still for a thousand of them


class _Open(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An open turn, and what sorts it."""

    started_at: float
    lane: Lane


def standing(house: House, lanes: Lanes, delivery: Delivery) -> dict[str, Any]:
    """The part of a `Snapshot` that the gateway knows. It is asked for while messages are on their
    way, so it counts everything and describes only the oldest."""
    live = list(lanes)
    states = Counter(lane.state for lane in live)
    opened = list(_opened(live))
    return {
        "turns": {state.value: states[state] for state in LaneState},
        "open_turns": tuple(_described(each) for each in _oldest(opened)),
        "more_turns": max(0, len(opened) - LISTED),
        "in_flight": sum(lane.in_flight for lane in live),
        "queued": sum(lane.queued for lane in live),
        "queued_since": min(_queued_since(live), default=None),
        "children": {kind.value: house.children.count(kind) for kind in ChildKind},
        "runs": len(house.jobs.busy),
        "next_job": house.jobs.next_due,
        "outbox": len(delivery),
        "outbox_since": delivery.since,
        "agents": house.cache.facts,
        "model": msgspec.structs.asdict(house.agents.model),
        "platforms": house.doors.facts(),
    }


def _oldest(opened: Sequence[_Open]) -> list[_Open]:
    return nsmallest(LISTED, opened, key=attrgetter("started_at"))


def _opened(lanes: Sequence[Lane]) -> Iterator[_Open]:
    for lane in lanes:
        if lane.set_aside is not None:
            yield _Open(started_at=lane.set_aside.turn.started_at, lane=lane)
        elif lane.turn is not None:
            yield _Open(started_at=lane.turn.started_at, lane=lane)


def _queued_since(lanes: Sequence[Lane]) -> Iterator[float]:
    for lane in lanes:
        if lane.queued_since is not None:
            yield lane.queued_since


def _described(opened: _Open) -> TurnFacts:
    turn, aside = opened.lane.turn, opened.lane.set_aside
    if aside is not None:
        return _facts(opened, aside.rows, turn=aside.turn.id, step=aside.model_steps + 1)
    assert turn is not None, "a turn that is not set aside runs"
    return _facts(opened, turn.rows, turn=turn.turn_id, step=turn.step, tools=turn.live.tools)


def _facts(
    opened: _Open, rows: Sequence[InboxRow], *, turn: str, step: int, tools: tuple[str, ...] = ()
) -> TurnFacts:
    lane, source = opened.lane, rows[-1].inbound.source
    return TurnFacts(
        session=lane.session_id,
        turn=turn,
        state=lane.state.value,
        platform=source.platform,
        chat=source.chat_id,
        started_at=opened.started_at,
        step=step,
        tools=tools,
        queued=lane.queued,
    )
