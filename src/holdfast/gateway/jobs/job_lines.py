"""Jobs and runs as people and models are told of them."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo

from holdfast.core.jobs.job import (
    HOME,
    NOWHERE,
    ORIGIN,
    Cause,
    Job,
    JobRun,
    JobSpec,
    Missed,
    Overlap,
    RunsIn,
    RunState,
)
from holdfast.core.jobs.schedule import first_due
from holdfast.gateway.jobs.time_zones import zone_of

_SHORT = 80
_PLACES = {ORIGIN: "here", HOME: "to the home channel", NOWHERE: "to nobody: /cron history has it"}


def made(job: Job, *, now: float) -> str:
    """What is told of a job that was just made: how it was understood."""
    spec = job.spec
    zone = zone_of(spec.schedule.zone)
    times = first_due(spec.schedule, now, zone, number=2)
    lines = [
        f"Job {job.id}: {spec.schedule.told}.",
        f"Next: {', then '.join(moment(at, zone) for at in times)}.",
        f"It does: {short(spec.text)}",
        f"Told {_PLACES.get(spec.to, f'to {spec.to}')}{_manner(spec)}.",
    ]
    return "\n".join(lines)


def listed(jobs: Iterable[Job], *, busy: Iterable[int] = ()) -> Iterator[str]:
    at_work = frozenset(busy)
    for job in jobs:
        yield f"{job.id}. {job.spec.name} - {job.spec.schedule.words}, {_when(job, at_work)}"


def history(runs: Iterable[JobRun], job: Job) -> Iterator[str]:
    zone = zone_of(job.spec.schedule.zone)
    for run in runs:
        why = {Cause.DUE: "", Cause.MISSED: ", late", Cause.ASKED: ", asked for"}[run.cause]
        said = run.text if run.state is RunState.ANSWERED else run.reason
        told = f": {short(said)}" if said else ""
        yield f"{moment(run.due_at, zone)}{why} - {run.state}{told}"


def moment(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%a %d %b %Y %H:%M")


def short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHORT else f"{line[: _SHORT - 1]}…"


def _when(job: Job, at_work: frozenset[int]) -> str:
    if job.id in at_work:
        return "running"
    if job.paused:
        return "paused"
    if job.next_due is None:
        return "over"
    return f"next {moment(job.next_due, zone_of(job.spec.schedule.zone))}"


def _manner(spec: JobSpec) -> str:
    """What is not as it usually is."""
    unusual = [
        ", unless there is nothing to tell" if spec.silent else "",
        ", in this conversation" if spec.runs_in is RunsIn.HERE else "",
        f"; missed times: {spec.missed}" if spec.missed is not Missed.ONCE else "",
        f"; while it still runs: {spec.overlap}" if spec.overlap is not Overlap.SKIP else "",
    ]
    return "".join(unusual)
