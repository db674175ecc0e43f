"""Scheduling: jobs on behalf of one turn, for the person that it works for."""

from holdfast.core.ids import CallId, SessionId
from holdfast.core.jobs.job import JobChangeKind, JobRequest
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ports.protocols import Clock, Store
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.jobs.destinations import JobRequester
from holdfast.gateway.jobs.job_lines import job_created_text, job_lines
from holdfast.gateway.jobs.jobs import JobService

_CHANGE_TEXTS = {
    JobChangeKind.PAUSE: "Job {id} is paused.",
    JobChangeKind.RESUME: "Job {id} goes on.",
    JobChangeKind.REMOVE: "Job {id} is removed.",
}


def requester_of(row: InboxRow, jobs: JobService) -> JobRequester:
    """Whoever said this; for a child, the person it works for, where they are."""
    child = row.inbound.subagent
    source = row.inbound.source if child is None else child.chat
    return JobRequester(
        source=source,
        principal=row.principal,
        is_operator=jobs.is_operator(source),
        # Its own source is the house's, and so is that of a child which works for it.
        from_run=row.inbound.run is not None or source.platform == INTERNAL_PLATFORM,
    )


class TurnJobs:
    """`core.job.Scheduling` for one turn; owns nothing."""

    def __init__(
        self, jobs: JobService, row: InboxRow, session_id: SessionId, *, store: Store, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._row = row
        self._session_id = session_id
        self._store = store
        self._clock = clock

    async def add(self, call_id: CallId, request: JobRequest) -> str:
        key = f"call.{self._session_id}.{call_id}"
        job = await self._jobs.add(request, self._requester, key=key)
        return job_created_text(job, now=self._clock.now())

    async def list_jobs(self) -> str:
        return (
            "\n".join(job_lines(await self._jobs.list_jobs(self._requester)))
            or "There are no jobs."
        )

    async def change_job(self, job_id: int, kind: JobChangeKind) -> str:
        job, change = await self._jobs.prepare_change(job_id, kind, self._requester)
        await self._store.change_job(change)
        self._jobs.on_changed()
        return _CHANGE_TEXTS[kind].format(id=job.id)

    @property
    def _requester(self) -> JobRequester:
        return requester_of(self._row, self._jobs)
