"""Absences: when no process of the gateway was there for a turn, and how it had been left."""

import msgspec

from holdfast.core.turns.stop import StopKind, StopRow, TurnExitReason
from holdfast.core.turns.timeline import StepSummary, TurnDetails
from holdfast.core.turns.turn import NO_USAGE, StepKind, TurnState
from holdfast.server.api.v1.turn_views import TurnExitState


class Downtime(msgspec.Struct, frozen=True, kw_only=True):
    stop: StopRow
    since: float
    until: float | None  # None: nobody has come back yet
    exit_state: TurnExitState


def find_downtimes(timeline: TurnDetails) -> list[Downtime]:
    """Those that began among the steps of this page, in order."""
    until = timeline.steps[-1].finished_at if timeline.more and timeline.steps else None
    found = [_downtime(timeline, stop) for stop in timeline.stops]
    return [
        each
        for each in found
        if timeline.since <= each.since and (until is None or each.since < until)
    ]


def _downtime(timeline: TurnDetails, stop: StopRow) -> Downtime:
    """A crash is found out by the next process, so it happened since the last sign of life."""
    found_out = stop.stopped_at or stop.order.at
    since = found_out
    if stop.order.kind is StopKind.CRASH:
        since = max(
            (at for at in _activity_times(timeline) if at <= found_out), default=timeline.since
        )
    # A turn is gone on with before its process calls itself ready.
    signs = [at for at in _activity_times(timeline) if at > found_out]
    back = [*signs, *([stop.ready_at] if stop.ready_at is not None else [])]
    return Downtime(
        stop=stop,
        since=since,
        until=min(back, default=None),
        exit_state=_exit_state(timeline, stop, since),
    )


def _activity_times(timeline: TurnDetails) -> list[float]:
    times = [timeline.since]
    for step in timeline.steps:
        times += [step.started_at, step.finished_at or step.started_at]
    return times


def _exit_state(timeline: TurnDetails, stop: StopRow, since: float) -> TurnExitState:
    waits = [
        asked
        for asked in timeline.approvals
        if asked.asked_at <= since and (asked.ended_at is None or asked.ended_at > since)
    ]
    if waits and not call_in_progress(timeline, since):
        return TurnExitState.WAITING
    if stop.order.kind is StopKind.CRASH:
        return TurnExitState.INTERRUPTED
    following = next(
        (s for s in timeline.steps if _last_activity(s) > max(since, stop.order.at)), None
    )
    if following is None:
        return _exit_state_by_mark(timeline, stop)
    told = following.kind is StepKind.NOTE and following.usage == NO_USAGE
    settled = following.kind is StepKind.TOOL and following.started_at <= since
    return TurnExitState.INTERRUPTED if told or settled else TurnExitState.PARKED


def _exit_state_by_mark(timeline: TurnDetails, stop: StopRow) -> TurnExitState:
    """Nothing has happened since: its own mark says how it was left, else that of the process."""
    outline = timeline.outline
    if outline.turn.state is TurnState.OPEN and outline.exit_reason is not None:
        return (
            TurnExitState.PARKED
            if outline.exit_reason is TurnExitReason.PARKED
            else TurnExitState.INTERRUPTED
        )
    return (
        TurnExitState.PARKED if stop.parked and not stop.interrupted else TurnExitState.INTERRUPTED
    )


def call_in_progress(timeline: TurnDetails, at: float) -> bool:
    """Whether a call was under way then."""
    return any(
        step.kind is StepKind.TOOL
        and step.started_at <= at
        and (step.finished_at is None or step.finished_at > at)
        for step in timeline.steps
    )


def _last_activity(step: StepSummary) -> float:
    return step.started_at if step.finished_at is None else step.finished_at
