"""The views of jobs: what `/api/v1/jobs` says and takes, as types."""

from datetime import datetime
from typing import Annotated

import msgspec

from holdfast.core.jobs.job import (
    LONGEST_TEXT,
    Cause,
    Job,
    JobRun,
    Missed,
    Overlap,
    RewrittenJob,
    RunsIn,
    RunState,
)
from holdfast.core.jobs.schedule import BadSchedule, first_due
from holdfast.gateway.jobs.time_zones import zone_of

_AHEAD = 3  # due times that are told

Words = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
Short = Annotated[str, msgspec.Meta(max_length=400)]


class NewJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`when` as people write it, or a cron expression. `to`: home, nowhere, or platform:chat;
    empty: home, where there is one. `limit`: seconds that a run may take; 0: no limit."""

    when: Words
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)]
    name: Short = ""
    zone: Short = ""
    to: Short = ""
    silent: bool = False
    missed: Missed = Missed.ONCE
    overlap: Overlap = Overlap.SKIP
    limit: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] | None = None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """`next_due` None: it is over. `upcoming`: the next times by the clock of its own time zone, as
    2026-12-01T09:00+01:00; none while it is paused."""

    id: int
    name: str
    text: str
    when: str
    cron: str  # what the words were taken for; "": an interval or a date
    zone: str  # "": the machine's own
    to: str
    session: RunsIn
    silent: bool
    missed: Missed
    overlap: Overlap
    limit: float
    owner: str
    paused: bool
    running: bool
    next_due: int | None
    upcoming: list[str] = []
    made_at: float


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    jobs: list[JobView]
    more: bool


class JobPaused(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One part of a `JobChanged`, as the command line says it."""

    paused: bool


class JobChanged(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be another of a job; what is left out stays. `zone`: the one that `when` is read
    in, where that names none; it is told with `when` alone. `name` "": the beginning of the text.
    What runs goes on as it began."""

    paused: bool | None = None
    when: Words | None = None
    zone: Short = ""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_TEXT)] | None = None
    name: Short | None = None
    to: Words | None = None
    silent: bool | None = None
    missed: Missed | None = None
    overlap: Overlap | None = None
    limit: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] | None = None

    @property
    def rewritten(self) -> RewrittenJob | None:
        """None: nothing but whether it is paused."""
        given = msgspec.structs.asdict(self)
        del given["paused"]
        wanted = RewrittenJob(**given)
        return None if wanted == RewrittenJob() else wanted


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """`text`: what was answered. `reason`: why it was skipped, stopped or has failed."""

    id: str
    job: int
    cause: Cause
    state: RunState
    due_at: int
    ended_at: float | None
    session_id: str | None
    turn_id: str | None = None
    text: str
    reason: str


def job_view(job: Job, *, running: bool) -> JobView:
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        text=spec.text,
        when=spec.schedule.words,
        cron=spec.schedule.cron,
        zone=spec.schedule.zone,
        to=spec.to,
        session=spec.runs_in,
        silent=spec.silent,
        missed=spec.missed,
        overlap=spec.overlap,
        limit=spec.limit,
        owner=job.principal,
        paused=job.paused,
        running=running,
        next_due=job.next_due,
        upcoming=_upcoming(job),
        made_at=job.made_at,
    )


def _upcoming(job: Job) -> list[str]:
    """None where this machine does not know its zone: a run would say so."""
    schedule = job.spec.schedule
    if job.paused or job.next_due is None:
        return []
    try:
        zone = zone_of(schedule.zone)
    except BadSchedule:
        return []
    times = [job.next_due, *first_due(schedule, job.next_due, zone, number=_AHEAD - 1)]
    return [datetime.fromtimestamp(at, zone).isoformat(timespec="minutes") for at in times]


def run_view(run: JobRun) -> RunView:
    return RunView(
        id=run.id,
        job=run.job_id,
        cause=run.cause,
        state=run.state,
        due_at=run.due_at,
        ended_at=run.ended_at,
        session_id=run.session_id,
        turn_id=run.turn_id,
        text=run.text if run.state is RunState.ANSWERED else "",
        reason=run.reason,
    )
