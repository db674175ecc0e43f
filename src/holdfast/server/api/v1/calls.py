"""Tool calls that run, in all conversations, over HTTP: from memory alone."""

from collections.abc import Iterator

from aiohttp import web

from holdfast.core.ids import SessionId, TurnId
from holdfast.core.messages.call_line import summarise_arguments
from holdfast.gateway.live.live import RunningCall
from holdfast.server.api.endpoint import ApiCall, NoQuery
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.process_views import RunningCallView

_MAX_CALLS = 100  # calls in one answer
_MAX_OUTPUT = 4000  # characters of what each has written


async def list_calls(context: ApiContext, call: ApiCall[NoQuery, None]) -> web.Response:
    """The oldest first; of more than can be listed those that have run longest."""
    running = sorted(_running_calls(context), key=lambda line: line.started_at)
    return context.respond(running[:_MAX_CALLS])


def _running_calls(context: ApiContext) -> Iterator[RunningCallView]:
    for lane in context.gateway.lanes:
        if (turn := lane.running_turn) is not None:
            yield from (_call_view(lane.session_id, turn.turn_id, each) for each in turn.live.calls)


def _call_view(session_id: SessionId, turn_id: TurnId, running: RunningCall) -> RunningCallView:
    return RunningCallView(
        session_id=session_id,
        turn_id=turn_id,
        call_id=running.id,
        name=running.name,
        summary=summarise_arguments(running.arguments),
        started_at=running.since,
        output=running.output[-_MAX_OUTPUT:],
    )
