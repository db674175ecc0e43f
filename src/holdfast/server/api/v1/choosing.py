"""Choosing sessions for a list: by how they stand, whose they are, and what was said in them."""

from typing import Literal

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.sessions.search import SearchQuery
from holdfast.core.sessions.session import SessionFilter
from holdfast.core.turns.turn import LaneState
from holdfast.server.api.room import ApiContext

SessionStateFilter = Literal["", "running", "waiting", "queued", "idle", "suspended", "ended"]

_MAX_HITS = 200  # places in which the words stand that are looked at, the best first


async def narrow_filter(
    context: ApiContext, base: SessionFilter, *, state: SessionStateFilter, text: str, platform: str
) -> SessionFilter:
    """Of those that are wanted, the ones in which these words were said and that stand so."""
    if text.strip():
        base = _restrict_to(base, set(await _sessions_with_text(context, text, platform)))
    return _filter_by_state(context, state, base)


async def _sessions_with_text(
    context: ApiContext, text: str, platform: str
) -> tuple[SessionId, ...]:
    query = SearchQuery(words=text, limit=_MAX_HITS, platform=platform)
    found = await context.store.search(query)
    return tuple(dict.fromkeys(each.session.id for each in found))


def _filter_by_state(
    context: ApiContext, state: SessionStateFilter, base: SessionFilter
) -> SessionFilter:
    """What runs and what waits is known to the lanes alone."""
    live = {lane.session_id: lane.state for lane in context.gateway.lanes}
    waiting = {each for each, stands in live.items() if stands is LaneState.WAITING}
    running = {each for each, stands in live.items() if stands is not LaneState.IDLE} - waiting
    match state:
        case "running":
            return _restrict_to(base, running)
        case "waiting":
            return _restrict_to(base, waiting)
        case "queued":
            return _restrict_to(
                base, {lane.session_id for lane in context.gateway.lanes if lane.waiting_messages}
            )
        case "suspended":
            return msgspec.structs.replace(base, suspended=True)
        case "ended":
            return msgspec.structs.replace(base, ended=True, suspended=False)
        case "idle":
            busy = tuple(running | waiting)
            return msgspec.structs.replace(base, ended=False, suspended=False, exclude=busy)
    return base


def _restrict_to(base: SessionFilter, session_ids: set[SessionId]) -> SessionFilter:
    both = session_ids if base.include is None else session_ids.intersection(base.include)
    return msgspec.structs.replace(base, include=tuple(both))
