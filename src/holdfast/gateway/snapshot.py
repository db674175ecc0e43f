"""What runs, waits and is undelivered now, from memory alone."""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest
from typing import Any

from holdfast.core.ops.status import TurnStatus
from holdfast.core.turns.subagent import SubagentKind, platform_label
from holdfast.core.turns.turn_state import LaneState
from holdfast.gateway.accounts.registry import PlatformRegistry
from holdfast.gateway.agents.cache import AgentCache
from holdfast.gateway.agents.factory import AgentFactory
from holdfast.gateway.jobs.service import JobService
from holdfast.gateway.outbound.outbox import OutboxWorker
from holdfast.gateway.subagents import Subagents
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.lanes import Lanes
from holdfast.gateway.turns.turn import Turn

MAX_LISTED = 100  # turns; the loop must not stand still for a thousand of them


def gateway_snapshot(
    lanes: Lanes,
    outbox: OutboxWorker,
    *,
    subagents: Subagents,
    jobs: JobService,
    cache: AgentCache,
    agent_factory: AgentFactory,
    platforms: PlatformRegistry,
) -> dict[str, Any]:
    """The part of a `GatewaySnapshot` that the gateway knows. It is built while messages are
    handled, so it counts everything and describes only the oldest."""
    model = agent_factory.model
    return {
        **_lane_counts(list(lanes)),
        "subagents": {kind.value: subagents.count(kind) for kind in SubagentKind},
        "runs": len(jobs.running),
        "outbox": len(outbox),
        "outbox_since": outbox.oldest_since,
        "undeliverable": outbox.undeliverable_counts,
        "agents": cache.status,
        "model": {"provider": model.provider, "name": model.name, "why": str(model.why)},
        "model_why": model.why,
        "platforms": platforms.statuses(),
    }


def _lane_counts(lanes: Sequence[Lane]) -> dict[str, Any]:
    """One pass over all of them."""
    queued = in_flight = 0
    queued_since: list[float] = []
    opened: list[tuple[Turn, Lane]] = []
    for lane in lanes:
        in_flight += lane.in_flight
        if (waits := lane.queued) and (since := lane.queued_since) is not None:
            queued += waits
            queued_since.append(since)
        if lane.turn is not None and lane.turn.is_open:
            opened.append((lane.turn, lane))
    states = Counter(lane.state for lane in lanes)
    return {
        "turns": {state.value: states[state] for state in LaneState},
        "open_turns": tuple(_oldest_turns(opened)),
        "more_turns": max(0, len(opened) - MAX_LISTED),
        "in_flight": in_flight,
        "queued": queued,
        "queued_since": min(queued_since, default=None),
    }


def _oldest_turns(opened: Iterable[tuple[Turn, Lane]]) -> Iterable[TurnStatus]:
    for turn, lane in nsmallest(MAX_LISTED, opened, key=lambda each: each[0].started_at):
        source = turn.rows[-1].inbound.source
        yield TurnStatus(
            session=lane.session_id,
            turn=turn.turn_id,
            state=lane.state.value,
            platform=platform_label(source.platform),
            chat=source.chat_id,
            started_at=turn.started_at,
            step=turn.step,
            tools=turn.tools,
            queued=lane.queued,
        )
