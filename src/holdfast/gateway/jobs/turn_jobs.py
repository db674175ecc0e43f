"""Jobs on behalf of one turn, and jobs and runs as text for people and models."""

from collections.abc import Iterable, Iterator, Mapping

from holdfast.core.ids import CallId, SessionId
from holdfast.core.jobs.job import (
    HOME,
    NOWHERE,
    ORIGIN,
    Job,
    JobChangeKind,
    JobId,
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
from holdfast.core.text.locale_format import format_weekday_time
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.jobs.service import JobRequester, JobService
from holdfast.gateway.jobs.time_zones import zone_of

_MAX_SHORT = 80
_CHANGE_TEXTS = {
    JobChangeKind.PAUSE: "Job {id} is paused.",
    JobChangeKind.RESUME: "Job {id} is resumed.",
    JobChangeKind.REMOVE: "Job {id} is removed.",
}
_DESTINATION_TEXTS = {
    ORIGIN: N_("The answer is sent here."),
    HOME: N_("The answer is sent to the home channel."),
    NOWHERE: N_("The answer is not sent; /cron history shows it."),
}
_RUN_STATE_TEXTS = {
    RunState.WAITING: N_("waiting"),
    RunState.RUNNING: N_("running"),
    RunState.ANSWERED: N_("answered"),
    RunState.FAILED: N_("failed"),
    RunState.STOPPED: N_("stopped"),
    RunState.SKIPPED: N_("skipped"),
    RunState.SESSION_DELETED: N_("conversation deleted"),
}


def job_created_text(job: Job, *, now: float) -> str:
    """The reply about a new job, which shows how the request was understood. In the language of the
    context: English for a model."""
    spec = job.spec
    zone = zone_of(spec.schedule.zone)
    times = first_due_times(spec.schedule, now, zone, limit=2)
    destination = _(_DESTINATION_TEXTS.get(spec.to, N_("The answer is sent to {chat}.")))
    lines = [
        _("Job {id}: {schedule}.").format(id=job.id, schedule=spec.schedule.description),
        _("Next: {times}.").format(times=", ".join(format_weekday_time(at, zone) for at in times)),
        _("Task: {text}").format(text=shorten(spec.text)),
        " ".join([destination.format(chat=spec.to), *_unusual_options(spec)]),
    ]
    return "\n".join(lines)


def job_lines(
    jobs: Iterable[Job], last_runs: Mapping[JobId, JobRun], *, busy: Iterable[int] = ()
) -> Iterator[str]:
    """In the language of the context."""
    running = frozenset(busy)
    for job in jobs:
        line = f"{job.id}. {job.spec.name} - {job.spec.schedule.text}, {_job_state(job, running)}"
        yield f"{line}; {_last_result(last_runs[job.id])}" if job.id in last_runs else line


def _last_result(run: JobRun) -> str:
    if run.state is not RunState.FAILED:
        return _("last run: {state}").format(state=_(_RUN_STATE_TEXTS[run.state]))
    return _("last run FAILED: {reason}").format(
        reason=shorten(_(run.reason) if run.reason else "")
    )


def run_lines(runs: Iterable[JobRun], job: Job) -> Iterator[str]:
    """In the language of the context."""
    zone = zone_of(job.spec.schedule.zone)
    for run in runs:
        at = format_weekday_time(run.due_at, zone)
        if run.cause is RunCause.MISSED:
            at = _("{time}, late").format(time=at)
        elif run.cause is RunCause.REQUESTED:
            at = _("{time}, requested").format(time=at)
        reason = _(run.reason) if run.reason else ""
        text = run.text if run.state is RunState.ANSWERED else reason
        detail = f": {shorten(text)}" if text else ""
        yield f"{at} - {_(_RUN_STATE_TEXTS[run.state])}{detail}"


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHORT else f"{line[: _MAX_SHORT - 1]}…"


def _job_state(job: Job, running: frozenset[int]) -> str:
    if job.id in running:
        return _("running")
    if job.paused:
        return _("paused")
    if job.next_due is None:
        return _("finished")
    zone = zone_of(job.spec.schedule.zone)
    return _("next {time}").format(time=format_weekday_time(job.next_due, zone))


def _unusual_options(spec: JobSpec) -> Iterator[str]:
    """A sentence for each option that differs from its default."""
    if spec.silent:
        yield _("No answer is sent if there is nothing to report.")
    if spec.runs_in is RunSession.HERE:
        yield _("It runs in this conversation.")
    if spec.missed is not MissedRunPolicy.ONCE:
        yield _("Missed times: {policy}.").format(policy=spec.missed)
    if spec.overlap is not OverlapPolicy.SKIP:
        yield _("While it is still running: {policy}.").format(policy=spec.overlap)


def requester_of(row: InboxRow, jobs: JobService) -> JobRequester:
    """The sender of a message; for a subagent, the person and the chat that it works for."""
    subagent = row.inbound.subagent
    source = row.inbound.source if subagent is None else subagent.chat
    return JobRequester(
        source=source,
        principal=row.principal,
        is_operator=jobs.is_operator(source),
        # Runs come from the internal platform, and so do subagents that work for them.
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
        jobs, last_runs = await self._jobs.list_jobs(self._requester)
        return "\n".join(job_lines(jobs, last_runs)) or "There are no jobs."

    async def change_job(self, job_id: int, kind: JobChangeKind) -> str:
        job, change = await self._jobs.prepare_change(job_id, kind, self._requester)
        await self._jobs.apply(change)
        return _CHANGE_TEXTS[kind].format(id=job.id)

    @property
    def _requester(self) -> JobRequester:
        return requester_of(self._row, self._jobs)
