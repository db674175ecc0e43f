"""Jobs: who may create, see, change and run them, and where their answers go.

The person who made a job owns it; operators see and change all. For anyone else it does not exist.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.jobs.job import (
    HOME,
    MAX_JOB_TEXT,
    NOWHERE,
    ORIGIN,
    SKIPPED_REPLACED,
    Job,
    JobChange,
    JobChangeKind,
    JobId,
    JobRefused,
    JobRequest,
    JobRun,
    JobSpec,
    JobUpdate,
    NewJob,
    NewRun,
    OverlapPolicy,
    RunCause,
    RunPlan,
    RunSession,
)
from holdfast.core.jobs.schedule import InvalidSchedule, Schedule, next_due, shortest_gap
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.people.audit import AuditEntry, AuditKind
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AddJob, SkipRuns
from holdfast.core.ports.store_queries import GetJob, ListJobRuns, ListJobs, ListLastRuns
from holdfast.core.text.translation import N_
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.accounts.registry import PlatformRegistry, normalise_chat_id
from holdfast.gateway.jobs.time_zones import zone_of
from holdfast.gateway.live_settings import LiveSettings
from holdfast.gateway.notify.home_channels import HomeChannels

_MAX_NAME = 60
_MAX_LISTED = 1000  # jobs of one list
STOPPED_BEFORE_START = N_("stopped before it started")


class JobRequester(msgspec.Struct, frozen=True, kw_only=True):
    """The person or program that uses jobs: in which chat, and with which rights."""

    source: Source
    principal: PrincipalId
    is_operator: bool
    has_chat: bool = True  # False: a program, and there is no chat to answer in
    from_run: bool = False  # a run of a job


class JobDestinations:
    """Decides where the answers of a job go. Owns nothing: it asks platforms and home channels."""

    def __init__(self, platforms: PlatformRegistry, home_channels: HomeChannels) -> None:
        self._platforms = platforms
        self._home_channels = home_channels

    def default(self, requester: JobRequester) -> str:
        if requester.has_chat:
            return ORIGIN
        return HOME if self._home_channels.all() else NOWHERE

    def default_session(self, requester: JobRequester, to: str) -> RunSession:
        """On a platform whose clients fetch replies, the answer of a fresh session could not be
        sent, so the run uses the conversation itself."""
        here = to == ORIGIN and self._is_fetched(source_address(requester.source))
        return RunSession.HERE if here else RunSession.FRESH

    def check(self, to: str, runs_in: RunSession, requester: JobRequester) -> Address | None:
        """The address if `to` names a chat. Raises `JobRefused` if the destination is not
        possible."""
        if to == ORIGIN:
            self._check_origin(runs_in, requester)
            return None
        if runs_in is RunSession.HERE:
            raise JobRefused("A job that runs in its conversation answers there. Leave out `to`.")
        if to == NOWHERE:
            return None
        if not requester.is_operator:
            raise JobRefused(
                "Only operators can send the answers of a job to another chat than the one in "
                "which it was created. Leave out `to`, or ask an operator to create the job."
            )
        if to == HOME:
            self._check_home()
            return None
        return self._parse_chat(to)

    def address_of(self, spec: JobSpec) -> Address | None:
        """Where answers go at the moment; None: they are not sent."""
        if spec.to == ORIGIN:
            return source_address(spec.source)
        if spec.to == HOME:
            return self._home(spec.source.platform)
        return spec.address

    def _check_origin(self, runs_in: RunSession, requester: JobRequester) -> None:
        if not requester.has_chat:
            raise JobRefused(
                "This request does not come from a chat, so `origin` is not possible. Use home, "
                "nowhere, or a chat as platform:chat."
            )
        if runs_in is RunSession.FRESH and self._is_fetched(source_address(requester.source)):
            raise JobRefused(
                "{platform} sends no messages by itself, so the answer of a fresh session would "
                "not be seen. Leave out session=fresh, and the job runs in this conversation.",
                platform=requester.source.platform,
            )

    def _check_home(self) -> None:
        if not self._home_channels.all():
            raise JobRefused(
                "There is no home channel. Send /sethome in the chat that you want to use, or set "
                "platforms.NAME.home in holdfast.toml."
            )

    def _parse_chat(self, to: str) -> Address:
        name, _, target = to.partition(":")
        chat, _, thread = target.partition("/")
        platforms = {
            each.name: each
            for each in self._platforms
            if not each.capabilities.fetchable and each.name != INTERNAL_PLATFORM
        }
        platform = platforms.get(name)
        if platform is None or not chat:
            if not platforms:
                raise JobRefused(
                    "{to!r} is not a destination: no platform is configured. Use origin, home or "
                    "nowhere.",
                    to=to,
                )
            raise JobRefused(
                "{to!r} is not a destination. Use origin, home, nowhere, or platform:chat, where "
                "platform is one of {names}.",
                to=to,
                names=", ".join(sorted(platforms)),
            )
        return Address(
            platform=name,
            account=platform.account,
            chat_id=normalise_chat_id(platform, chat),
            thread_id=thread or None,
        )

    def _home(self, platform: str) -> Address | None:
        addresses = [home.address for home in self._home_channels.all()]
        own = [address for address in addresses if address.platform == platform]
        return next(iter((*own, *addresses)), None)

    def _is_fetched(self, address: Address) -> bool:
        return self._platforms.capabilities(address).fetchable


def source_address(source: Source) -> Address:
    return Address(
        platform=source.platform,
        account=source.account,
        chat_id=source.chat_id,
        thread_id=source.thread_id,
    )


class RunningJobs:
    """Owns which jobs have a running run, at most one each, and which of those are being stopped.
    `JobExecutor` keeps both up to date; each is so before the awaiter of a commit resumes."""

    def __init__(self) -> None:
        self.stops: dict[JobId, asyncio.Task[bool | StoreError]] = {}
        self._messages: dict[JobId, InboxId] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._messages

    @property
    def ids(self) -> tuple[JobId, ...]:
        return tuple(self._messages)

    def message_of(self, job_id: JobId) -> InboxId | None:
        return self._messages.get(job_id)

    def add(self, job_id: JobId, inbox_id: InboxId) -> None:
        self._messages[job_id] = inbox_id

    def remove(self, job_id: JobId) -> None:
        del self._messages[job_id]

    async def stopped(self, job_id: JobId) -> bool:
        """The result of the stop that a commit has begun; False: none was running. Raises
        `StoreError` if it could not be stopped."""
        if (stop := self.stops.get(job_id)) is None:
            return False
        result = await asyncio.shield(stop)
        if isinstance(result, StoreError):
            raise result
        return result


class JobService:
    """Checks the rights of a requester and prepares the changes. Owns nothing: jobs are in the
    store, and their runs in lanes. The scheduler learns of each change from its commit."""

    def __init__(
        self,
        live_settings: LiveSettings,
        destinations: JobDestinations,
        *,
        running: RunningJobs,
        is_operator: Callable[[Source], bool],
        store: Store,
        clock: Clock,
    ) -> None:
        self.running = running
        self.is_operator = is_operator
        self._live_settings = live_settings
        self._destinations = destinations
        self._store = store
        self.clock = clock

    async def add(self, request: JobRequest, requester: JobRequester, *, key: str) -> Job:
        """`key` is the idempotency key of the request: with the same key it is the same job."""
        job = await self._store.write(
            AddJob(new=self.prepare_add(request, requester, key=key), limit=self.max_per_person)
        )
        if job is None:
            raise self.limit_reached()
        return job

    @property
    def max_per_person(self) -> int:
        """The number of jobs that one person may have."""
        return self._live_settings.current.jobs.max_per_person

    def limit_reached(self) -> JobRefused:
        return JobRefused(
            "You already have {limit} jobs, the maximum. Remove one first, or raise "
            "jobs.max_per_person in holdfast.toml.",
            limit=self.max_per_person,
        )

    def prepare_add(self, request: JobRequest, requester: JobRequester, *, key: str) -> NewJob:
        """The job to commit, possibly together with other changes."""
        if requester.from_run:
            raise JobRefused(
                "A run of a job cannot create jobs. Do the work now, or tell the person."
            )
        now = self.clock.now()
        spec = self._build_spec(request, requester, now)
        due = self._first_due(spec.schedule, now)
        self._check_interval(spec.schedule, now)
        return NewJob(key=key, principal=requester.principal, spec=spec, next_due=due, at=now)

    async def apply(self, change: JobChange) -> None:
        """Write a change that `prepare_change` has checked."""
        await self._store.write(change)

    async def list_jobs(self, requester: JobRequester) -> tuple[list[Job], Mapping[JobId, JobRun]]:
        """The jobs, and the last run of each that has ended."""
        jobs = await self._store.read(
            ListJobs(principal=_visible_owner(requester), limit=_MAX_LISTED)
        )
        return jobs, await self._store.read(ListLastRuns(job_ids=[job.id for job in jobs]))

    async def find(self, job_id: int, requester: JobRequester) -> Job:
        job = await self._store.read(GetJob(job_id=JobId(job_id)))
        if job is None or (job.principal != requester.principal and not requester.is_operator):
            raise JobRefused("There is no job {id}.", id=job_id)
        return job

    async def prepare_change(
        self, job_id: int, kind: JobChangeKind, requester: JobRequester
    ) -> tuple[Job, JobChange]:
        """The job as it is, and the change to commit."""
        job = await self.find(job_id, requester)
        due = job.next_due
        if kind is JobChangeKind.RESUME:
            due = self._first_due(job.spec.schedule, self.clock.now())
        return job, JobChange(job_id=job.id, principal=job.principal, kind=kind, next_due=due)

    async def prepare_update(
        self, job_id: int, update: JobUpdate, requester: JobRequester
    ) -> JobChange:
        """The change to commit. The next due time changes only with the schedule."""
        job, now = await self.find(job_id, requester), self.clock.now()
        spec, due = self._updated_spec(job.spec, update, requester), None
        if update.when is not None:
            again = JobRequest(when=update.when, zone=update.zone, text=spec.text)
            spec = msgspec.structs.replace(spec, schedule=self._parse_schedule(again, now))
            due = self._first_due(spec.schedule, now)
            self._check_interval(spec.schedule, now)
        return JobChange(
            job_id=job.id,
            principal=job.principal,
            kind=JobChangeKind.UPDATE,
            next_due=due,
            spec=spec,
        )

    def _updated_spec(self, spec: JobSpec, update: JobUpdate, requester: JobRequester) -> JobSpec:
        """All but the schedule. A name that was derived from the text is derived again."""
        text = spec.text if update.text is None else _checked_text(update.text)
        name = update.name
        if name is None:
            name = "" if spec.name == short_name(spec.text) else spec.name
        given = msgspec.structs.asdict(update)
        copied = ("silent", "missed", "overlap", "limit")
        changes = {field: given[field] for field in copied if given[field] is not None}
        if update.to is not None and update.to != spec.to:
            address = self._destinations.check(update.to, spec.runs_in, requester)
            changes |= {"to": update.to, "address": address}
        return msgspec.structs.replace(spec, text=text, name=short_name(name or text), **changes)

    async def run_now(self, job_id: int, requester: JobRequester, *, key: str) -> str:
        """Run it once, now; returns the id of the run. `key` is the idempotency key."""
        plan = await self.prepare_run(job_id, requester, key=key)
        await self._store.write(
            plan, audit=self._audit_entry(AuditKind.JOB_RUN, plan.job_id, requester)
        )
        return plan.runs[0].id

    async def prepare_run(self, job_id: int, requester: JobRequester, *, key: str) -> RunPlan:
        """The plan to commit."""
        job = await self.find(job_id, requester)
        if job.id in self.running and job.spec.overlap is OverlapPolicy.SKIP:
            raise JobRefused(
                "Job {id} is already running. Wait until it is done, or stop it first.", id=job.id
            )
        now = self.clock.now()
        run = NewRun(id=f"{job.id}.{key}", job_id=job.id, cause=RunCause.REQUESTED, due_at=int(now))
        return RunPlan(
            job_id=job.id,
            principal=job.principal,
            runs=(run,),
            drop_waiting_reason=SKIPPED_REPLACED
            if job.spec.overlap is OverlapPolicy.REPLACE
            else "",
            at=now,
        )

    async def stop_run(self, job_id: int, requester: JobRequester) -> bool:
        """Drop its waiting runs, which also stops the running one; False: there were none."""
        job = await self.find(job_id, requester)
        skip = SkipRuns(job_id=job.id, principal=job.principal, why=STOPPED_BEFORE_START)
        entry = self._audit_entry(AuditKind.JOB_STOPPED, job.id, requester)
        dropped = await self._store.write(skip, audit=entry)
        return await self.running.stopped(job.id) or dropped > 0

    def _audit_entry(self, kind: AuditKind, job_id: JobId, requester: JobRequester) -> AuditEntry:
        actor, at = requester.principal, self.clock.now()
        return AuditEntry(kind=kind, actor=actor, at=at, subject=str(job_id))

    async def history(self, job_id: int, requester: JobRequester, *, limit: int) -> list[JobRun]:
        job = await self.find(job_id, requester)
        return await self._store.read(ListJobRuns(job_id=job.id, limit=limit))

    def _build_spec(self, request: JobRequest, requester: JobRequester, now: float) -> JobSpec:
        text = _checked_text(request.text)
        to = request.to or self._destinations.default(requester)
        runs_in = request.runs_in or self._destinations.default_session(requester, to)
        limit = request.limit
        return JobSpec(
            name=short_name(request.name or text),
            text=text,
            schedule=self._parse_schedule(request, now),
            source=requester.source,
            to=to,
            address=self._destinations.check(to, runs_in, requester),
            runs_in=runs_in,
            silent=request.silent,
            missed=request.missed,
            overlap=request.overlap,
            limit=self._live_settings.current.jobs.time_limit if limit is None else limit,
        )

    def _parse_schedule(self, request: JobRequest, now: float) -> Schedule:
        # The parser compiles many regular expressions: imported with the first schedule.
        from holdfast.core.jobs.parser import parse_schedule, split_zone  # noqa: PLC0415

        words, named_zone = split_zone(request.when)
        settings = self._live_settings.current
        jobs, sessions = settings.jobs, settings.sessions
        name = named_zone or request.zone or jobs.time_zone or sessions.time_zone
        return parse_schedule(words, now=now, zone=zone_of(name), zone_name=name)

    def _first_due(self, schedule: Schedule, now: float) -> int:
        due = next_due(schedule, now, zone_of(schedule.zone))
        if due is None:
            raise InvalidSchedule(
                "“{text}” is in the past and does not come again.", text=schedule.text
            )
        return due

    def _check_interval(self, schedule: Schedule, now: float) -> None:
        gap = shortest_gap(schedule, now, zone_of(schedule.zone))
        least = self._live_settings.current.jobs
        if gap is not None and gap < least.min_interval:
            raise JobRefused(
                "“{text}” is every {gap} seconds; the shortest interval is {least} seconds "
                "(jobs.min_interval in holdfast.toml).",
                text=schedule.text,
                gap=f"{gap:g}",
                least=f"{least.min_interval:g}",
            )


def _checked_text(text: str) -> str:
    """The task of a job. Raises `JobRefused` if it is empty or too long."""
    text = text.strip()
    if not text:
        raise JobRefused("The task of the job is missing.")
    if len(text) > MAX_JOB_TEXT:
        raise JobRefused(
            "The task of the job is too long: {length} characters; {limit} are allowed.",
            length=len(text),
            limit=MAX_JOB_TEXT,
        )
    return text


def short_name(text: str) -> str:
    """The beginning of a text on one line."""
    words = " ".join(text.split())
    return words if len(words) <= _MAX_NAME else f"{words[: _MAX_NAME - 1]}…"


def _visible_owner(requester: JobRequester) -> PrincipalId | None:
    return None if requester.is_operator else requester.principal
