"""Choosing sessions for a list: by how they stand, whose they are, and what was said in them."""

from typing import Literal

import msgspec

from holdfast.core.ids import SessionId
from holdfast.core.sessions.search import SearchQuery
from holdfast.core.sessions.session import SessionFilter
from holdfast.core.turns.turn import LaneState
from holdfast.server.api.room import Room

Standing = Literal["", "running", "waiting", "queued", "idle", "suspended", "ended"]

_MOST_FOUND = 200  # places in which the words stand that are looked at, the best first


async def chosen(
    room: Room, wanted: SessionFilter, *, state: Standing, text: str, platform: str
) -> SessionFilter:
    """Of those that are wanted, the ones in which these words were said and that stand so."""
    if text.strip():
        wanted = _only(wanted, set(await _said(room, text, platform)))
    return _standing(room, state, wanted)


async def _said(room: Room, text: str, platform: str) -> tuple[SessionId, ...]:
    query = SearchQuery(words=text, limit=_MOST_FOUND, platform=platform)
    found = await room.store.search(query)
    return tuple(dict.fromkeys(each.session.id for each in found))


def _standing(room: Room, state: Standing, every: SessionFilter) -> SessionFilter:
    """What runs and what waits is known to the lanes alone."""
    live = {lane.session_id: lane.state for lane in room.gateway.lanes}
    waiting = {each for each, stands in live.items() if stands is LaneState.WAITING}
    running = {each for each, stands in live.items() if stands is not LaneState.IDLE} - waiting
    match state:
        case "running":
            return _only(every, running)
        case "waiting":
            return _only(every, waiting)
        case "queued":
            return _only(every, {lane.session_id for lane in room.gateway.lanes if lane.waiting})
        case "suspended":
            return msgspec.structs.replace(every, suspended=True)
        case "ended":
            return msgspec.structs.replace(every, ended=True, suspended=False)
        case "idle":
            busy = tuple(running | waiting)
            return msgspec.structs.replace(every, ended=False, suspended=False, without=busy)
    return every


def _only(every: SessionFilter, wanted: set[SessionId]) -> SessionFilter:
    both = wanted if every.only is None else wanted.intersection(every.only)
    return msgspec.structs.replace(every, only=tuple(both))
