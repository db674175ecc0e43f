"""How the house stands: what runs, waits and is owed at this instant, from memory alone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from operator import itemgetter
from typing import Any

import msgspec

from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ops.facts import TurnFacts
from holdfast.core.turns.subagent import ChildKind
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.outbound.delivery import Delivery
from holdfast.gateway.services import House
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.lanes import Lanes

LISTED = 100  # turns; the loop must not stand still for a thousand of them


def standing(house: House, lanes: Lanes, delivery: Delivery) -> dict[str, Any]:
    """The part of a `Snapshot` that the gateway knows. It is asked for while messages are on their
    way, so it counts everything and describes only the oldest."""
    return {
        **_counted(list(lanes)),
        "children": {kind.value: house.children.count(kind) for kind in ChildKind},
        "runs": len(house.jobs.busy),
        "next_job": house.jobs.next_due,
        "outbox": len(delivery),
        "outbox_since": delivery.since,
        "stranded": delivery.stranded,
        "agents": house.cache.facts,
        "model": msgspec.structs.asdict(house.agents.model),
        "platforms": house.doors.facts(),
    }


def _counted(lanes: Sequence[Lane]) -> dict[str, Any]:
    """One pass over all of them."""
    queued = in_flight = 0
    queued_since: list[float] = []
    opened: list[tuple[float, Lane]] = []
    for lane in lanes:
        in_flight += lane.in_flight
        if (waits := lane.queued) and (since := lane.queued_since) is not None:
            queued += waits
            queued_since.append(since)
        if (began := lane.open_since) is not None:
            opened.append((began, lane))
    states = Counter(lane.state for lane in lanes)
    return {
        "turns": {state.value: states[state] for state in LaneState},
        "open_turns": tuple(_oldest(opened)),
        "more_turns": max(0, len(opened) - LISTED),
        "in_flight": in_flight,
        "queued": queued,
        "queued_since": min(queued_since, default=None),
    }


def _oldest(opened: Iterable[tuple[float, Lane]]) -> Iterable[TurnFacts]:
    for began, lane in nsmallest(LISTED, opened, key=itemgetter(0)):
        turn, aside = lane.turn, lane.set_aside
        if aside is not None:
            yield _facts(lane, began, aside.rows, turn=aside.turn.id, step=aside.model_steps + 1)
        elif turn is not None:
            tools = turn.live.tools
            yield _facts(lane, began, turn.rows, turn=turn.turn_id, step=turn.step, tools=tools)


def _facts(
    lane: Lane,
    began: float,
    rows: Sequence[InboxRow],
    *,
    turn: str,
    step: int,
    tools: tuple[str, ...] = (),
) -> TurnFacts:
    source = rows[-1].inbound.source
    return TurnFacts(
        session=lane.session_id,
        turn=turn,
        state=lane.state.value,
        platform=source.platform,
        chat=source.chat_id,
        started_at=began,
        step=step,
        tools=tools,
        queued=lane.queued,
    )
