"""Scheduling: jobs on behalf of one turn, for the person that it works for."""

from holdfast.core.ids import CallId, SessionId
from holdfast.core.jobs.job import ChangeKind, WantedJob
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.ports.protocols import Clock, Store
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.jobs.destinations import Person
from holdfast.gateway.jobs.job_lines import listed, made
from holdfast.gateway.jobs.jobs import Jobs

_DONE = {
    ChangeKind.PAUSE: "Job {id} is paused.",
    ChangeKind.RESUME: "Job {id} goes on.",
    ChangeKind.REMOVE: "Job {id} is removed.",
}


def person_of(row: InboxRow, jobs: Jobs) -> Person:
    """Whoever said this; for a child, the person it works for, where they are."""
    child = row.inbound.child
    source = row.inbound.source if child is None else child.chat
    return Person(
        source=source,
        principal=row.principal,
        operates=jobs.operates(source),
        # Its own source is the house's, and so is that of a child which works for it.
        in_run=row.inbound.run is not None or source.platform == HOUSE,
    )


class TurnJobs:
    """`core.job.Scheduling` for one turn; owns nothing."""

    def __init__(
        self, jobs: Jobs, row: InboxRow, session_id: SessionId, *, store: Store, clock: Clock
    ) -> None:
        self._jobs = jobs
        self._row = row
        self._session_id = session_id
        self._store = store
        self._clock = clock

    async def add(self, call_id: CallId, wanted: WantedJob) -> str:
        key = f"call.{self._session_id}.{call_id}"
        job = await self._jobs.add(wanted, self._person, key=key)
        return made(job, now=self._clock.now())

    async def listed(self) -> str:
        return "\n".join(listed(await self._jobs.listed(self._person))) or "There are no jobs."

    async def change(self, job_id: int, kind: ChangeKind) -> str:
        job, change = await self._jobs.change(job_id, kind, self._person)
        await self._store.change_job(change)
        self._jobs.stirred()
        return _DONE[kind].format(id=job.id)

    @property
    def _person(self) -> Person:
        return person_of(self._row, self._jobs)
