"""Jobs and runs as people and models are told of them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo

from holdfast.core.jobs.job import (
    HOME,
    NOWHERE,
    ORIGIN,
    Job,
    JobRun,
    JobSpec,
    MissedRunPolicy,
    OverlapPolicy,
    RunCause,
    RunSession,
    RunState,
)
from holdfast.core.jobs.schedule import first_due_times
from holdfast.gateway.jobs.time_zones import zone_of

_MAX_SHORT = 80
_DESTINATION_TEXTS = {
    ORIGIN: "here",
    HOME: "to the home channel",
    NOWHERE: "to nobody: /cron history has it",
}


def job_created_text(job: Job, *, now: float) -> str:
    """What is told of a job that was just made: how it was understood."""
    spec = job.spec
    zone = zone_of(spec.schedule.zone)
    times = first_due_times(spec.schedule, now, zone, limit=2)
    lines = [
        f"Job {job.id}: {spec.schedule.description}.",
        f"Next: {', then '.join(format_time(at, zone) for at in times)}.",
        f"It does: {shorten(spec.text)}",
        f"Told {_DESTINATION_TEXTS.get(spec.to, f'to {spec.to}')}{_unusual_options(spec)}.",
    ]
    return "\n".join(lines)


def job_lines(jobs: Iterable[Job], *, busy: Iterable[int] = ()) -> Iterator[str]:
    at_work = frozenset(busy)
    for job in jobs:
        yield f"{job.id}. {job.spec.name} - {job.spec.schedule.text}, {_job_state(job, at_work)}"


def run_lines(runs: Iterable[JobRun], job: Job) -> Iterator[str]:
    zone = zone_of(job.spec.schedule.zone)
    for run in runs:
        why = {RunCause.DUE: "", RunCause.MISSED: ", late", RunCause.REQUESTED: ", asked for"}[
            run.cause
        ]
        said = run.text if run.state is RunState.ANSWERED else run.reason
        told = f": {shorten(said)}" if said else ""
        yield f"{format_time(run.due_at, zone)}{why} - {run.state}{told}"


def format_time(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%a %d %b %Y %H:%M")


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHORT else f"{line[: _MAX_SHORT - 1]}…"


def _job_state(job: Job, at_work: frozenset[int]) -> str:
    if job.id in at_work:
        return "running"
    if job.paused:
        return "paused"
    if job.next_due is None:
        return "over"
    return f"next {format_time(job.next_due, zone_of(job.spec.schedule.zone))}"


def _unusual_options(spec: JobSpec) -> str:
    """What is not as it usually is."""
    unusual = [
        ", unless there is nothing to tell" if spec.silent else "",
        ", in this conversation" if spec.runs_in is RunSession.HERE else "",
        f"; missed times: {spec.missed}" if spec.missed is not MissedRunPolicy.ONCE else "",
        f"; while it still runs: {spec.overlap}" if spec.overlap is not OverlapPolicy.SKIP else "",
    ]
    return "".join(unusual)
