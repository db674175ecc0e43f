"""What is live of a session, as `/api/v1` shows it."""

from holdfast.control.v1.room import Room
from holdfast.control.v1.views import Live, LiveCall, QueuedMessage
from holdfast.core.ids import SessionId


def live_of(room: Room, session_id: SessionId) -> Live | None:
    """None: no turn runs. Read it after the log, and nothing is seen twice."""
    lane = room.gateway.lanes.get(session_id)
    turn = lane.turn if lane else None
    if lane is None or turn is None:
        return None
    step = turn.live
    return Live(
        turn_id=turn.turn_id,
        resumed=turn.resumed is not None,
        text=step.text,
        reasoning=step.reasoning,
        calls=[
            LiveCall(call_id=call.id, name=call.name, arguments=call.arguments, output=call.output)
            for call in step.calls
        ],
        queued=[
            QueuedMessage(id=row.id, message_id=row.inbound.message_id, text=row.inbound.text)
            for row in lane.waiting
        ],
    )
