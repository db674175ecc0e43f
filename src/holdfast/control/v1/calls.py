"""Tool calls that run, in all conversations, over HTTP: from memory alone."""

from collections.abc import Iterator

from aiohttp import web

from holdfast.control.v1.endpoint import Call, NoQuery
from holdfast.control.v1.room import Room
from holdfast.control.v1.views import CallLine
from holdfast.core.call_line import told_in_a_line

_MOST = 100  # calls; the loop must not stand still for a thousand of them
_SHOWN = 4000  # characters of what each has written


async def list_calls(room: Room, call: Call[NoQuery, None]) -> web.Response:
    """The oldest first; of more than can be listed those that have run longest."""
    running = sorted(_running(room), key=lambda line: line.started_at)
    return room.say(running[:_MOST])


def _running(room: Room) -> Iterator[CallLine]:
    for lane in room.gateway.lanes:
        turn = lane.turn
        for each in () if turn is None else turn.live.calls:
            yield CallLine(
                session_id=lane.session_id,
                turn_id="" if turn is None else turn.turn_id,
                call_id=each.id,
                name=each.name,
                about=told_in_a_line(each.arguments),
                started_at=each.since,
                output=each.output[-_SHOWN:],
            )
