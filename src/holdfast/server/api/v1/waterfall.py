"""The waterfall of a turn: its steps, waits and absences as stretches of time, in order."""

from collections.abc import Sequence

from holdfast.core.messages.message import Outcome
from holdfast.core.people.approval import Approval
from holdfast.core.turns.pricing import Prices, price_of
from holdfast.core.turns.timeline import Course, StepLine
from holdfast.core.turns.turn import StepKind, TurnState
from holdfast.server.api.v1.absences import Absence, absences, in_a_call
from holdfast.server.api.v1.turn_views import Parting, Span, SpanKind

_SHOWN = 200  # characters of a command that waits


def waterfall(course: Course, *, prices: Prices, asks: bool) -> list[Span]:
    """`asks`: a process is at the turn now, so that what follows the last step is a request to
    the model, unless a call runs or a person is waited for."""
    away = absences(course)
    cut = [each for each in away if each.parting is Parting.CUT]
    lost = [each for each in cut if not in_a_call(course, each.since)]
    spans: list[Span] = []
    free = course.since  # from when on nothing of the turn was under way any more
    for step in course.steps:
        begun = _begun(step, free, away)
        spans += _lost(step, free, lost)
        spans.append(_step(step, begun, prices))
        free = max(free, step.finished_at or free)
    spans += [_waiting(each) for each in course.approvals if _among(course, each)]
    spans += [_away(each) for each in away]
    spans += [span for each in away for span in _drained(course, each)]
    begun = max([free, *(each.until for each in away if each.until is not None)])
    spans += _unanswered(course, begun)
    if asks and not course.more and all(span.ended_at is not None for span in spans):
        spans.append(Span(kind=SpanKind.MODEL, started_at=begun, ended_at=None))
    return sorted(spans, key=lambda span: span.started_at)


def _begun(step: StepLine, free: float, away: Sequence[Absence]) -> float:
    """A reply has only its end in the log: the model was asked when all before it was done. So was
    one that wrote a summary, or described a picture."""
    if step.kind is not StepKind.MODEL and not step.usage.output_tokens:
        return step.started_at
    back = [each.until for each in away if each.until is not None and each.until <= step.started_at]
    return min(step.started_at, max([free, *back]))


def _lost(step: StepLine, free: float, away: Sequence[Absence]) -> list[Span]:
    """The request to the model that was under way when the process was gone, and left no reply."""
    return [
        Span(
            kind=SpanKind.MODEL,
            started_at=free,
            ended_at=each.since,
            outcome=Outcome.CANCELLED,
        )
        for each in away
        if free < each.since <= step.started_at
    ]


def _unanswered(course: Course, begun: float) -> list[Span]:
    """The request that was under way when the turn was ended, or that it failed by. One that ended
    in a call has that call's result from the same write, and one that waited its approval's end."""
    turn = course.outline.turn
    ended_at = turn.ended_at
    if course.more or ended_at is None or turn.state is TurnState.ANSWERED:
        return []
    waited = any(each.ended_at is None or each.ended_at >= ended_at for each in course.approvals)
    if waited or begun >= ended_at:
        return []
    outcome = Outcome.ERROR if turn.state is TurnState.FAILED else Outcome.CANCELLED
    return [Span(kind=SpanKind.MODEL, started_at=begun, ended_at=ended_at, outcome=outcome)]


def _step(step: StepLine, begun: float, prices: Prices) -> Span:
    price = price_of(step.model, prices) if step.model else None
    used = step.usage.input_tokens or step.usage.output_tokens
    return Span(
        kind=SpanKind(step.kind.value),
        started_at=begun,
        ended_at=step.finished_at,
        name=step.model or step.tool,
        about=step.about,
        step=step.seq,
        record=step.message_seq,
        usage=step.usage if used else None,
        cost=None if price is None else price.of(step.usage),
        call_id=step.call_id,
        outcome=step.outcome,
        taken_up=step.taken_up,
    )


def _waiting(asked: Approval) -> Span:
    return Span(
        kind=SpanKind.APPROVAL,
        started_at=asked.asked_at,
        ended_at=asked.ended_at,
        name=asked.tool,
        about=asked.command.partition("\n")[0][:_SHOWN],
        call_id=asked.call_id,
        approval=asked.id,
        decided=None if asked.pending else asked.state,
        by=asked.by,
    )


def _drained(course: Course, each: Absence) -> list[Span]:
    """One that was left between two steps stood there, from the order or the end of its last step
    on, until its process was gone."""
    ends = [step.finished_at for step in course.steps if step.finished_at is not None]
    begun = max([each.stop.order.at, *(at for at in ends if at <= each.since)])
    if each.parting is not Parting.PARKED or in_a_call(course, each.since) or begun >= each.since:
        return []
    return [Span(kind=SpanKind.DRAIN, started_at=begun, ended_at=each.since)]


def _away(each: Absence) -> Span:
    return Span(
        kind=SpanKind.AWAY,
        started_at=each.since,
        ended_at=each.until,
        name=each.stop.order.kind.value,
        by=each.stop.order.by.value,
        parting=each.parting,
    )


def _among(course: Course, asked: Approval) -> bool:
    """Whether it was asked among the steps of this page."""
    until = course.steps[-1].finished_at if course.more and course.steps else None
    return course.since <= asked.asked_at and (until is None or asked.asked_at < until)
