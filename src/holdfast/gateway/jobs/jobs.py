"""Jobs: made, found, changed and asked for, by those who may."""

from collections.abc import Awaitable, Callable, Collection

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.jobs.job import (
    LONGEST_TEXT,
    Cause,
    ChangeKind,
    Job,
    JobChange,
    JobId,
    JobRefused,
    JobRun,
    JobSpec,
    NewJob,
    NewRun,
    Overlap,
    RewrittenJob,
    RunPlan,
    WantedJob,
)
from holdfast.core.jobs.run_planning import REPLACED
from holdfast.core.jobs.schedule import BadSchedule, Schedule, next_due, shortest_gap
from holdfast.core.messages.source import Source
from holdfast.core.people.audit import Act, AuditKind
from holdfast.core.ports.journal import Journal
from holdfast.core.ports.protocols import Clock, Store
from holdfast.gateway.jobs.destinations import Destinations, Person
from holdfast.gateway.jobs.time_zones import zone_of
from holdfast.gateway.live_settings import InForce

_LONGEST_NAME = 60
_MOST = 1000  # jobs of one list
STOPPED = "stopped before it began"


class JobWays(msgspec.Struct, frozen=True, kw_only=True):
    """What jobs need of the rest of the house, which is built on top of them."""

    destinations: Destinations
    operates: Callable[[Source], bool]
    at_work: Callable[[], Collection[JobId]]
    stop: Callable[[JobId], Awaitable[bool]]  # what runs of a job
    stirred: Callable[[], None]  # something may be due sooner than it was
    next_due: Callable[[], float | None]
    leave: Callable[[], None]  # nothing begins any more


class Jobs:
    """Decides who may have what. Owns nothing: jobs are the store's, their runs the lanes'.

    The person who made a job owns it; operators see and change all. To anybody else a job that
    is another's is not there.
    """

    def __init__(self, in_force: InForce, *, store: Store, clock: Clock) -> None:
        self._in_force = in_force
        self._store = store
        self._clock = clock
        self._ways: JobWays

    def settle_in(self, ways: JobWays) -> None:
        self._ways = ways

    def operates(self, source: Source) -> bool:
        return self._ways.operates(source)

    @property
    def busy(self) -> Collection[JobId]:
        """Those of which a run is at work."""
        return self._ways.at_work()

    @property
    def next_due(self) -> float | None:
        """When the next one is, as far as it is known; None: none will be."""
        return self._ways.next_due()

    def stirred(self) -> None:
        """Something about jobs was changed in the store."""
        self._ways.stirred()

    def leave(self) -> None:
        """The gateway stops: what is due from now on is the next start's."""
        self._ways.leave()

    async def add(self, wanted: WantedJob, person: Person, *, key: str) -> Job:
        """`key` names who asks: asked again by whatever process, it is the same job."""
        job = await self._store.add_job(self.to_add(wanted, person, key=key), most=self.most)
        if job is None:
            raise JobRefused(self.full)
        self.stirred()
        return job

    @property
    def most(self) -> int:
        """How many one person may have."""
        return self._in_force.settings.jobs.max_per_person

    @property
    def full(self) -> str:
        return f"You have {self.most} jobs, which is the most there may be: remove one."

    def to_add(self, wanted: WantedJob, person: Person, *, key: str) -> NewJob:
        """What is to be committed for it, with whatever else; call `stirred` then."""
        if person.in_run:
            raise JobRefused("A run of a job makes no jobs: do it now, or tell the person.")
        now = self._clock.now()
        spec = self._spec(wanted, person, now)
        due = self._next(spec.schedule, now)
        self._check_often(spec.schedule, now)
        return NewJob(key=key, principal=person.principal, spec=spec, next_due=due, at=now)

    async def listed(self, person: Person) -> list[Job]:
        return await self._store.jobs(principal=_only(person), limit=_MOST)

    async def find(self, job_id: int, person: Person) -> Job:
        job = await self._store.job(JobId(job_id))
        if job is None or (job.principal != person.principal and not person.operates):
            raise JobRefused(f"There is no job {job_id}.")
        return job

    async def change(self, job_id: int, kind: ChangeKind, person: Person) -> tuple[Job, JobChange]:
        """The job as it is and what is to be committed to change it, with whatever else; call
        `stirred` then."""
        job = await self.find(job_id, person)
        due = job.next_due
        if kind is ChangeKind.RESUME:
            due = self._next(job.spec.schedule, self._clock.now())
        return job, JobChange(job_id=job.id, kind=kind, next_due=due)

    async def rewrite(self, job_id: int, wanted: RewrittenJob, person: Person) -> JobChange:
        """What is to be committed so that it is another from now on; call `stirred` then. Where
        its times stay as they are, so does the next of them, whatever that is by then."""
        job, now = await self.find(job_id, person), self._clock.now()
        spec, due = self._rewritten(job.spec, wanted, person), None
        if wanted.when is not None:
            again = WantedJob(when=wanted.when, zone=wanted.zone, text=spec.text)
            spec = msgspec.structs.replace(spec, schedule=self._schedule(again, now))
            due = self._next(spec.schedule, now)
            self._check_often(spec.schedule, now)
        return JobChange(job_id=job.id, kind=ChangeKind.REWRITE, next_due=due, spec=spec)

    def _rewritten(self, spec: JobSpec, wanted: RewrittenJob, person: Person) -> JobSpec:
        """All but its times. A name that was only the beginning of the text goes with it."""
        text = spec.text if wanted.text is None else _checked(wanted.text)
        name = wanted.name
        if name is None:
            name = "" if spec.name == named(spec.text) else spec.name
        given = msgspec.structs.asdict(wanted)
        kept = ("silent", "missed", "overlap", "limit")
        changes = {field: given[field] for field in kept if given[field] is not None}
        if wanted.to is not None and wanted.to != spec.to:
            address = self._ways.destinations.check(wanted.to, spec.runs_in, person)
            changes |= {"to": wanted.to, "address": address}
        return msgspec.structs.replace(spec, text=text, name=named(name or text), **changes)

    async def run_now(self, job_id: int, person: Person, *, key: str) -> str:
        """Have it run once more, now; the id of that run, which is there once for each `key`."""
        plan, replaces = await self.to_run(job_id, person, key=key)
        await self._acting(AuditKind.JOB_RUN, plan.job_id, person).plan_runs(plan)
        await self.planned(plan, replaces=replaces)
        return plan.runs[0].id

    async def to_run(self, job_id: int, person: Person, *, key: str) -> tuple[RunPlan, bool]:
        """What is to be committed so that it runs, with whatever else, and whether it replaces
        what is at work; call `planned` then."""
        job = await self.find(job_id, person)
        busy = job.id in self.busy
        if busy and job.spec.overlap is Overlap.SKIP:
            raise JobRefused(f"Job {job.id} is at work already: stop it first, or wait.")
        now = self._clock.now()
        run = NewRun(id=f"{job.id}.{key}", job_id=job.id, cause=Cause.ASKED, due_at=int(now))
        replaces = job.spec.overlap is Overlap.REPLACE
        unwanted = REPLACED if replaces else ""
        plan = RunPlan(job_id=job.id, runs=(run,), unwanted=unwanted, at=now)
        return plan, busy and replaces

    async def planned(self, plan: RunPlan, *, replaces: bool) -> None:
        """What was decided for a job is in the log: what it replaces ends."""
        if replaces:
            await self._ways.stop(plan.job_id)
        self.stirred()

    async def stop_run(self, job_id: int, person: Person) -> bool:
        """What runs of it is stopped, and what waits is not begun; False: there was nothing."""
        job = await self.find(job_id, person)
        acting = self._acting(AuditKind.JOB_STOPPED, job.id, person)
        dropped = await acting.skip_runs(job.id, why=STOPPED)
        return await self.stop_work(job.id) or dropped > 0

    def _acting(self, kind: AuditKind, job_id: JobId, person: Person) -> Journal:
        actor, at = person.principal, self._clock.now()
        return self._store.acting(Act(kind=kind, actor=actor, at=at, subject=str(job_id)))

    async def stop_work(self, job_id: JobId) -> bool:
        """What runs of it is stopped; False: nothing does."""
        return await self._ways.stop(job_id)

    async def history(self, job_id: int, person: Person, *, limit: int) -> list[JobRun]:
        job = await self.find(job_id, person)
        return await self._store.runs(job.id, limit=limit)

    def _spec(self, wanted: WantedJob, person: Person, now: float) -> JobSpec:
        text = _checked(wanted.text)
        to = wanted.to or self._ways.destinations.usual(person)
        runs_in = wanted.runs_in or self._ways.destinations.usual_session(person, to)
        limit = wanted.limit
        return JobSpec(
            name=named(wanted.name or text),
            text=text,
            schedule=self._schedule(wanted, now),
            source=person.source,
            to=to,
            address=self._ways.destinations.check(to, runs_in, person),
            runs_in=runs_in,
            silent=wanted.silent,
            missed=wanted.missed,
            overlap=wanted.overlap,
            limit=self._in_force.settings.jobs.time_limit if limit is None else limit,
        )

    def _schedule(self, wanted: WantedJob, now: float) -> Schedule:
        from holdfast.core.jobs.schedule_words import parse_schedule, split_zone

        words, named_zone = split_zone(wanted.when)
        settings = self._in_force.settings
        jobs, sessions = settings.jobs, settings.sessions
        name = named_zone or wanted.zone or jobs.time_zone or sessions.time_zone
        return parse_schedule(words, now=now, zone=zone_of(name), zone_name=name)

    def _next(self, schedule: Schedule, now: float) -> int:
        due = next_due(schedule, now, zone_of(schedule.zone))
        if due is None:
            raise BadSchedule(f"“{schedule.words}” is past, and never comes again.")
        return due

    def _check_often(self, schedule: Schedule, now: float) -> None:
        gap = shortest_gap(schedule, now, zone_of(schedule.zone))
        least = self._in_force.settings.jobs
        if gap is not None and gap < least.min_interval:
            raise JobRefused(
                f"“{schedule.words}” is every {gap:g} seconds; a job may be due at most every "
                f"{least.min_interval:g} (jobs.min_interval)."
            )


def _checked(text: str) -> str:
    """What a job is to do. Raises `JobRefused` where nothing is said, or too much."""
    text = text.strip()
    if not text:
        raise JobRefused("It is not said what the job is to do.")
    if len(text) > LONGEST_TEXT:
        raise JobRefused(f"A job is told what to do in at most {LONGEST_TEXT} characters.")
    return text


def named(text: str) -> str:
    """A name on one line."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST_NAME else f"{words[: _LONGEST_NAME - 1]}…"


def _only(person: Person) -> PrincipalId | None:
    return None if person.operates else person.principal
