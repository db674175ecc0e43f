"""What is live of a session, as `/api/v1` shows it."""

from holdfast.core.ids import SessionId
from holdfast.core.turns.turn import LaneState
from holdfast.gateway.turns.lane import Lane
from holdfast.server.api.room import ApiContext
from holdfast.server.api.v1.approvals import approval_view
from holdfast.server.api.views.session_views import LiveCall, LiveState, QueuedMessage


def live_state(context: ApiContext, session_id: SessionId) -> LiveState | None:
    """None: no turn runs or waits, and no child asks. Read it after the log, and nothing is seen
    twice."""
    lane = context.gateway.lanes.get(session_id)
    if lane is None or (lane.running_turn is None and lane.state is not LaneState.WAITING):
        return _idle_with_approvals(context, session_id)
    turn = lane.running_turn
    if turn is None:
        return _waiting_turn(context, lane)
    step = turn.live
    return LiveState(
        turn_id=turn.turn_id,
        resumed=turn.resumed is not None,
        text=step.text,
        reasoning=step.reasoning,
        calls=[
            LiveCall(call_id=call.id, name=call.name, arguments=call.arguments, output=call.output)
            for call in step.calls
        ],
        queued=_queued_messages(lane),
        approvals=[
            approval_view(each) for each in context.gateway.approvals.pending_in(session_id)
        ],
    )


def _idle_with_approvals(context: ApiContext, session_id: SessionId) -> LiveState | None:
    """What background children ask comes to the conversation that they work for, whatever that
    does meanwhile."""
    asked = [approval_view(each) for each in context.gateway.approvals.pending_in(session_id)]
    return LiveState(turn_id="", approvals=asked, idle=True) if asked else None


def _waiting_turn(context: ApiContext, lane: Lane) -> LiveState:
    """Of a turn that waits for a person there is no step: all of it is in the log."""
    asked = lane.approvals.all
    return LiveState(
        turn_id=asked[0].turn_id if asked else "",
        queued=_queued_messages(lane),
        approvals=[
            approval_view(each) for each in context.gateway.approvals.pending_in(lane.session_id)
        ],
    )


def _queued_messages(lane: Lane) -> list[QueuedMessage]:
    return [
        QueuedMessage(id=row.id, message_id=row.inbound.message_id, text=row.inbound.text)
        for row in lane.waiting_messages
    ]
