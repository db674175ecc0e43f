"""Absences: when no process of the gateway was there for a turn, and how it had been left."""

import msgspec

from holdfast.core.turns.stop import LeftAs, StopKind, StopRow
from holdfast.core.turns.timeline import Course, StepLine
from holdfast.core.turns.turn import NO_USAGE, StepKind, TurnState
from holdfast.server.api.v1.turn_views import Parting


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    stop: StopRow
    since: float
    until: float | None  # None: nobody has come back yet
    parting: Parting


def absences(course: Course) -> list[Absence]:
    """Those that began among the steps of this page, in order."""
    until = course.steps[-1].finished_at if course.more and course.steps else None
    found = [_absence(course, stop) for stop in course.stops]
    return [
        each
        for each in found
        if course.since <= each.since and (until is None or each.since < until)
    ]


def _absence(course: Course, stop: StopRow) -> Absence:
    """A crash is found out by the next process, so it happened since the last sign of life."""
    found_out = stop.stopped_at or stop.order.at
    since = found_out
    if stop.order.kind is StopKind.CRASH:
        since = max((at for at in _signs(course) if at <= found_out), default=course.since)
    # A turn is gone on with before its process calls itself ready.
    signs = [at for at in _signs(course) if at > found_out]
    back = [*signs, *([stop.ready_at] if stop.ready_at is not None else [])]
    return Absence(
        stop=stop, since=since, until=min(back, default=None), parting=_parting(course, stop, since)
    )


def _signs(course: Course) -> list[float]:
    times = [course.since]
    for step in course.steps:
        times += [step.started_at, step.finished_at or step.started_at]
    return times


def _parting(course: Course, stop: StopRow, since: float) -> Parting:
    waits = [
        asked
        for asked in course.approvals
        if asked.asked_at <= since and (asked.ended_at is None or asked.ended_at > since)
    ]
    if waits and not in_a_call(course, since):
        return Parting.WAITING
    if stop.order.kind is StopKind.CRASH:
        return Parting.CUT
    following = next((s for s in course.steps if _last_of(s) > max(since, stop.order.at)), None)
    if following is None:
        return _left(course, stop)
    told = following.kind is StepKind.NOTE and following.usage == NO_USAGE
    settled = following.kind is StepKind.TOOL and following.started_at <= since
    return Parting.CUT if told or settled else Parting.PARKED


def _left(course: Course, stop: StopRow) -> Parting:
    """Nothing has happened since: its own mark says how it was left, else that of the process."""
    outline = course.outline
    if outline.turn.state is TurnState.OPEN and outline.left_as is not None:
        return Parting.PARKED if outline.left_as is LeftAs.PARKED else Parting.CUT
    return Parting.PARKED if stop.parked and not stop.interrupted else Parting.CUT


def in_a_call(course: Course, at: float) -> bool:
    """Whether a call was under way then."""
    return any(
        step.kind is StepKind.TOOL
        and step.started_at <= at
        and (step.finished_at is None or step.finished_at > at)
        for step in course.steps
    )


def _last_of(step: StepLine) -> float:
    return step.started_at if step.finished_at is None else step.finished_at
