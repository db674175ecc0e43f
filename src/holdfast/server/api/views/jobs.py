"""Wire types of jobs and their runs."""

from datetime import datetime
from typing import Annotated

import msgspec

from holdfast.core.jobs.job import (
    MAX_JOB_TEXT,
    Job,
    JobRun,
    JobUpdate,
    MissedRunPolicy,
    OverlapPolicy,
    RunCause,
    RunSession,
    RunState,
)
from holdfast.core.jobs.schedule import InvalidSchedule, first_due_times
from holdfast.gateway.jobs.time_zones import zone_of

_UPCOMING_SHOWN = 3  # due times in a view

RequiredText = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
ShortText = Annotated[str, msgspec.Meta(max_length=400)]


class JobParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`when` as people write it, or a cron expression. `to`: home, nowhere, or platform:chat;
    empty: home, where there is one. `limit`: seconds that a run may take; 0: no limit."""

    when: RequiredText
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_JOB_TEXT)]
    name: ShortText = ""
    zone: ShortText = ""
    to: ShortText = ""
    silent: bool = False
    missed: MissedRunPolicy = MissedRunPolicy.ONCE
    overlap: OverlapPolicy = OverlapPolicy.SKIP
    limit: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] | None = None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """`last_run`: the last one that ended. `next_due` None: there is no further run. `upcoming`:
    the next times in its own time zone, as 2026-12-01T09:00+01:00; none while it is paused."""

    id: int
    name: str
    text: str
    when: str
    cron: str  # parsed from `when`; "": an interval or a date
    zone: str  # "": the machine's own
    to: str
    session: RunSession
    silent: bool
    missed: MissedRunPolicy
    overlap: OverlapPolicy
    limit: float
    owner: str
    paused: bool
    running: bool
    next_due: int | None
    upcoming: list[str] = []
    made_at: float
    last_run: "JobRunView | None" = None


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    jobs: list[JobView]
    more: bool


class JobPausePatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of a `JobPatch` that pauses or resumes."""

    paused: bool


class JobPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes of a job; fields that are left out stay. `zone`: of `when`, if that names none; only
    together with `when`. `name` "": the beginning of the text. A running run is not affected."""

    paused: bool | None = None
    when: RequiredText | None = None
    zone: ShortText = ""
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_JOB_TEXT)] | None = None
    name: ShortText | None = None
    to: RequiredText | None = None
    silent: bool | None = None
    missed: MissedRunPolicy | None = None
    overlap: OverlapPolicy | None = None
    limit: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] | None = None

    @property
    def as_update(self) -> JobUpdate | None:
        """None: only `paused` changes."""
        given = msgspec.structs.asdict(self)
        del given["paused"]
        update = JobUpdate(**given)
        return None if update == JobUpdate() else update


class JobRunView(msgspec.Struct, frozen=True, kw_only=True):
    """`text`: the answer. `reason`: why it was skipped, stopped or failed."""

    id: str
    job: int
    cause: RunCause
    state: RunState
    due_at: int
    ended_at: float | None
    session_id: str | None
    turn_id: str | None = None
    text: str
    reason: str


def job_view(job: Job, *, running: bool, last_run: JobRun | None) -> JobView:
    spec = job.spec
    return JobView(
        id=job.id,
        name=spec.name,
        text=spec.text,
        when=spec.schedule.text,
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
        last_run=None if last_run is None else run_view(last_run),
    )


def _upcoming(job: Job) -> list[str]:
    """Empty if this machine does not know the time zone."""
    schedule = job.spec.schedule
    if job.paused or job.next_due is None:
        return []
    try:
        zone = zone_of(schedule.zone)
    except InvalidSchedule:
        return []
    times = [
        job.next_due,
        *first_due_times(schedule, job.next_due, zone, limit=_UPCOMING_SHOWN - 1),
    ]
    return [datetime.fromtimestamp(at, zone).isoformat(timespec="minutes") for at in times]


def run_view(run: JobRun) -> JobRunView:
    return JobRunView(
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
