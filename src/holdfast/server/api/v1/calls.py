"""Tool calls that run, in all conversations, over HTTP: from memory alone."""

from collections.abc import Iterator

from aiohttp import web

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.call_line import told_in_a_line
from holdfast.gateway.live.live import RunningCall
from holdfast.server.api.endpoint import Call, NoQuery
from holdfast.server.api.room import Room
from holdfast.server.api.v1.process_views import CallLine

_MOST = 100  # calls in one answer
_SHOWN = 4000  # characters of what each has written


async def list_calls(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """The oldest first; of more than can be listed those that have run longest."""
    running = sorted(_running(room), key=lambda line: line.started_at)
    return room.say(running[:_MOST])


def _running(room: Room) -> Iterator[CallLine]:
    for lane in room.gateway.lanes:
        if (turn := lane.turn) is not None:
            yield from (_line(lane.session_id, turn.turn_id, each) for each in turn.live.calls)


def _line(session_id: SessionId, turn_id: TurnId, running: RunningCall) -> CallLine:
    return CallLine(
        session_id=session_id,
        turn_id=turn_id,
        call_id=running.id,
        name=running.name,
        about=told_in_a_line(running.arguments),
        started_at=running.since,
        output=running.output[-_SHOWN:],
    )
