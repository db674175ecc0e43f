"""Jobs on behalf of one turn, and jobs and runs as text for people and models."""

from collections.abc import Iterable, Iterator
from datetime import datetime, tzinfo

from holdfast.core.ids import CallId, SessionId
from holdfast.core.jobs.job import (
    HOME,
    NOWHERE,
    ORIGIN,
    Job,
    JobChangeKind,
    JobRequest,
    JobRun,
    JobSpec,
    MissedRunPolicy,
    OverlapPolicy,
    RunCause,
    RunSession,
    RunState,
)
from holdfast.core.jobs.schedule import first_due_times
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.jobs.service import JobRequester, JobService
from holdfast.gateway.jobs.time_zones import zone_of

_MAX_SHORT = 80
_CHANGE_TEXTS = {
    JobChangeKind.PAUSE: "Job {id} is paused.",
    JobChangeKind.RESUME: "Job {id} goes on.",
    JobChangeKind.REMOVE: "Job {id} is removed.",
}
_DESTINATION_TEXTS = {
    ORIGIN: "here",
    HOME: "to the home channel",
    NOWHERE: "to nobody: /cron history has it",
}


def job_created_text(job: Job, *, now: float) -> str:
    """The reply about a job that was just made: how its request was understood."""
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
    running = frozenset(busy)
    for job in jobs:
        yield f"{job.id}. {job.spec.name} - {job.spec.schedule.text}, {_job_state(job, running)}"


def run_lines(runs: Iterable[JobRun], job: Job) -> Iterator[str]:
    zone = zone_of(job.spec.schedule.zone)
    for run in runs:
        why = {RunCause.DUE: "", RunCause.MISSED: ", late", RunCause.REQUESTED: ", asked for"}[
            run.cause
        ]
        text = run.text if run.state is RunState.ANSWERED else run.reason
        detail = f": {shorten(text)}" if text else ""
        yield f"{format_time(run.due_at, zone)}{why} - {run.state}{detail}"


def format_time(at: float, zone: tzinfo) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%a %d %b %Y %H:%M")


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHORT else f"{line[: _MAX_SHORT - 1]}…"


def _job_state(job: Job, running: frozenset[int]) -> str:
    if job.id in running:
        return "running"
    if job.paused:
        return "paused"
    if job.next_due is None:
        return "over"
    return f"next {format_time(job.next_due, zone_of(job.spec.schedule.zone))}"


def _unusual_options(spec: JobSpec) -> str:
    """The options that differ from their defaults."""
    unusual = [
        ", unless there is nothing to tell" if spec.silent else "",
        ", in this conversation" if spec.runs_in is RunSession.HERE else "",
        f"; missed times: {spec.missed}" if spec.missed is not MissedRunPolicy.ONCE else "",
        f"; while it still runs: {spec.overlap}" if spec.overlap is not OverlapPolicy.SKIP else "",
    ]
    return "".join(unusual)


def requester_of(row: InboxRow, jobs: JobService) -> JobRequester:
    """The sender of a message; for a subagent, the person and the chat that it works for."""
    subagent = row.inbound.subagent
    source = row.inbound.source if subagent is None else subagent.chat
    return JobRequester(
        source=source,
        principal=row.principal,
        is_operator=jobs.is_operator(source),
        # A run comes from the internal platform, and so does a subagent that works for it.
        from_run=row.inbound.run is not None or source.platform == INTERNAL_PLATFORM,
    )


class TurnJobs:
    """Jobs for one turn, as the `schedule` tool needs them; owns nothing."""

    def __init__(self, jobs: JobService, row: InboxRow, session_id: SessionId) -> None:
        self._jobs = jobs
        self._row = row
        self._session_id = session_id

    async def add(self, call_id: CallId, request: JobRequest) -> str:
        key = f"call.{self._session_id}.{call_id}"
        job = await self._jobs.add(request, self._requester, key=key)
        return job_created_text(job, now=self._jobs.clock.now())

    async def list_jobs(self) -> str:
        return (
            "\n".join(job_lines(await self._jobs.list_jobs(self._requester)))
            or "There are no jobs."
        )

    async def change_job(self, job_id: int, kind: JobChangeKind) -> str:
        job, change = await self._jobs.prepare_change(job_id, kind, self._requester)
        await self._jobs.apply(change)
        return _CHANGE_TEXTS[kind].format(id=job.id)

    @property
    def _requester(self) -> JobRequester:
        return requester_of(self._row, self._jobs)
