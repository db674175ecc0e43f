"""The waterfall of a turn: its steps, waits and absences as stretches of time, in order."""

from collections.abc import Sequence

from holdfast.core.messages.message import ToolOutcome
from holdfast.core.people.approval import Approval
from holdfast.core.turns.pricing import Prices, find_price
from holdfast.core.turns.timeline import StepSummary, TurnDetails
from holdfast.core.turns.turn import StepKind, TurnState
from holdfast.server.api.v1.absences import Downtime, call_in_progress, find_downtimes
from holdfast.server.api.v1.turn_views import TimelineSpan, TimelineSpanKind, TurnExitState

_MAX_COMMAND = 200  # characters of a command that waits


def build_spans(timeline: TurnDetails, *, prices: Prices, running: bool) -> list[TimelineSpan]:
    """`asks`: a process is at the turn now, so that what follows the last step is a request to
    the model, unless a call runs or a person is waited for."""
    away = find_downtimes(timeline)
    cut = [each for each in away if each.exit_state is TurnExitState.INTERRUPTED]
    lost = [each for each in cut if not call_in_progress(timeline, each.since)]
    spans: list[TimelineSpan] = []
    free = timeline.since  # from when on nothing of the turn was under way any more
    for step in timeline.steps:
        begun = _step_start(step, free, away)
        spans += _lost_requests(step, free, lost)
        spans.append(_step_span(step, begun, prices))
        free = max(free, step.finished_at or free)
    spans += [_approval_span(each) for each in timeline.approvals if _on_this_page(timeline, each)]
    spans += [_downtime_span(each) for each in away]
    spans += [span for each in away for span in _drain_spans(timeline, each)]
    begun = max([free, *(each.until for each in away if each.until is not None)])
    spans += _unanswered_request(timeline, begun)
    if running and not timeline.more and all(span.ended_at is not None for span in spans):
        spans.append(TimelineSpan(kind=TimelineSpanKind.MODEL, started_at=begun, ended_at=None))
    return sorted(spans, key=lambda span: span.started_at)


def _step_start(step: StepSummary, free: float, downtimes: Sequence[Downtime]) -> float:
    """A reply has only its end in the log: the model was asked when all before it was done. So was
    one that wrote a summary, or described a picture."""
    if step.kind is not StepKind.MODEL and not step.usage.output_tokens:
        return step.started_at
    back = [
        each.until for each in downtimes if each.until is not None and each.until <= step.started_at
    ]
    return min(step.started_at, max([free, *back]))


def _lost_requests(
    step: StepSummary, free: float, downtimes: Sequence[Downtime]
) -> list[TimelineSpan]:
    """The request to the model that was under way when the process was gone, and left no reply."""
    return [
        TimelineSpan(
            kind=TimelineSpanKind.MODEL,
            started_at=free,
            ended_at=each.since,
            outcome=ToolOutcome.CANCELLED,
        )
        for each in downtimes
        if free < each.since <= step.started_at
    ]


def _unanswered_request(timeline: TurnDetails, begun: float) -> list[TimelineSpan]:
    """The request that was under way when the turn was ended, or that it failed by. One that ended
    in a call has that call's result from the same write, and one that waited its approval's end."""
    turn = timeline.outline.turn
    ended_at = turn.ended_at
    if timeline.more or ended_at is None or turn.state is TurnState.ANSWERED:
        return []
    waited = any(each.ended_at is None or each.ended_at >= ended_at for each in timeline.approvals)
    if waited or begun >= ended_at:
        return []
    outcome = ToolOutcome.ERROR if turn.state is TurnState.FAILED else ToolOutcome.CANCELLED
    return [
        TimelineSpan(
            kind=TimelineSpanKind.MODEL, started_at=begun, ended_at=ended_at, outcome=outcome
        )
    ]


def _step_span(step: StepSummary, begun: float, prices: Prices) -> TimelineSpan:
    price = find_price(step.model, prices) if step.model else None
    used = step.usage.input_tokens or step.usage.output_tokens
    return TimelineSpan(
        kind=TimelineSpanKind(step.kind.value),
        started_at=begun,
        ended_at=step.finished_at,
        name=step.model or step.tool,
        summary=step.summary,
        step=step.seq,
        record=step.message_seq,
        usage=step.usage if used else None,
        cost=None if price is None else price.cost_of(step.usage),
        call_id=step.call_id,
        outcome=step.outcome,
        recovery=step.recovery,
    )


def _approval_span(asked: Approval) -> TimelineSpan:
    return TimelineSpan(
        kind=TimelineSpanKind.APPROVAL,
        started_at=asked.asked_at,
        ended_at=asked.ended_at,
        name=asked.tool,
        summary=asked.command.partition("\n")[0][:_MAX_COMMAND],
        call_id=asked.call_id,
        approval=asked.id,
        decision=None if asked.pending else asked.state,
        by=asked.by,
    )


def _drain_spans(timeline: TurnDetails, downtime: Downtime) -> list[TimelineSpan]:
    """One that was left between two steps stood there, from the order or the end of its last step
    on, until its process was gone."""
    ends = [step.finished_at for step in timeline.steps if step.finished_at is not None]
    begun = max([downtime.stop.order.at, *(at for at in ends if at <= downtime.since)])
    if (
        downtime.exit_state is not TurnExitState.PARKED
        or call_in_progress(timeline, downtime.since)
        or begun >= downtime.since
    ):
        return []
    return [TimelineSpan(kind=TimelineSpanKind.DRAIN, started_at=begun, ended_at=downtime.since)]


def _downtime_span(downtime: Downtime) -> TimelineSpan:
    return TimelineSpan(
        kind=TimelineSpanKind.DOWNTIME,
        started_at=downtime.since,
        ended_at=downtime.until,
        name=downtime.stop.order.kind.value,
        by=downtime.stop.order.by.value,
        exit_state=downtime.exit_state,
    )


def _on_this_page(timeline: TurnDetails, asked: Approval) -> bool:
    """Whether it was asked among the steps of this page."""
    until = timeline.steps[-1].finished_at if timeline.more and timeline.steps else None
    return timeline.since <= asked.asked_at and (until is None or asked.asked_at < until)
