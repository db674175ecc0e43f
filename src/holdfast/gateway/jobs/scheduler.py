"""The task that plans due jobs, starts waiting runs, and sleeps until the next due time."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.jobs.job import (
    SKIPPED_REPLACED,
    Job,
    JobChange,
    JobChangeKind,
    NewRun,
    OverlapPolicy,
    RunPlan,
    RunState,
    WaitingRun,
    apply_overlap_policy,
    due_times_needed,
    plan_runs,
)
from holdfast.core.jobs.schedule import due_times, next_due
from holdfast.core.messages.source import Source
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Clock, Runtime, WallClockTimer
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AddJob, SkipRuns
from holdfast.core.ports.store_queries import (
    CountWaitingRuns,
    GetJobRun,
    GetNextDueTime,
    ListDueJobs,
    ListWaitingRuns,
)
from holdfast.core.retry import SCHEDULER_RETRY
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translation import N_
from holdfast.gateway.jobs.executor import JobExecutor
from holdfast.gateway.jobs.time_zones import zone_of
from holdfast.gateway.live_settings import LiveSettings

log = logging.getLogger(__name__)

_MAX_JOBS_PER_RUN = 50  # jobs of one look; there may be thousands after a long pause
_MAX_SLEEP = 86400.0
_NOT_ALLOWED = N_("the owner of the job may not talk to the agent any more")


class SleepTimer:
    """A timer that sleeps: a change of the clock is noticed within a day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def wait_until(self, at: float) -> None:
        await asyncio.sleep(min(max(at - self._clock.now(), 0.0), _MAX_SLEEP))


JOB_COMMANDS = (AddJob, JobChange, RunPlan, SkipRuns, CommandEffect)


class Scheduler:
    """Owns the time of the next check. Only it plans and starts runs, so that nothing is decided
    twice; each decision is stored before it takes effect."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        live_settings: LiveSettings,
        executor: JobExecutor,
        *,
        alarm: WallClockTimer,
        may_talk: Callable[[Source], bool],
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._live_settings = live_settings
        self._executor = executor
        self._alarm = alarm
        self._may_talk = may_talk
        self._woken = executor.run_ended  # also set when a job was changed
        self._closed = False
        self.next_due: float | None = None

    async def run(self) -> None:
        """Run until `close`."""
        while not self._closed:
            self._woken.clear()
            try:
                self.next_due = await self.run_once()
            except HoldfastError as error:
                wait = SCHEDULER_RETRY.wait(0)
                log.error(
                    "Could not plan jobs: %s; retrying in %g s",
                    error,
                    wait,
                    extra={"action": "scheduler_failed"},
                )
                self.next_due = self._runtime.clock.now() + wait
            await self._sleep()

    def close(self) -> None:
        """Start no more runs; the next start of the gateway does."""
        self._closed = True
        self._woken.set()

    def on_committed(self, event: Committed) -> None:
        """Wake up after a change of a job, but not after an own plan."""
        command = event.command
        if isinstance(command, CommandEffect):
            changed = any((command.job, command.new_job, command.runs, command.skip_runs))
        else:
            changed = not isinstance(command, RunPlan) or command.was_due is None
        if changed:
            self.wake()

    def wake(self) -> None:
        """Check the jobs now."""
        self._woken.set()

    async def run_once(self) -> float | None:
        """Plan the jobs that are due and start what can run; returns the next due time."""
        now = self._runtime.clock.now()
        due = await self._store.read(ListDueJobs(by=now, limit=_MAX_JOBS_PER_RUN))
        for planned in await asyncio.gather(
            *(self._plan(job, now) for job in due), return_exceptions=True
        ):
            if isinstance(planned, BaseException):
                raise planned
        await self._start_waiting()
        return await self._store.read(GetNextDueTime())

    async def _sleep(self) -> None:
        both: set[asyncio.Future[object]] = {asyncio.ensure_future(self._woken.wait())}
        if self.next_due is not None:
            both.add(asyncio.ensure_future(self._alarm.wait_until(self.next_due)))
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            ends = await asyncio.gather(*both, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end  # a failing timer would wake it without end

    async def _plan(self, job: Job, now: float) -> None:
        try:
            plan = await self._build_plan(job, now)
        except StoreError:
            raise
        except HoldfastError as error:
            await self._pause_job(job, str(error))
            return
        if await self._store.write(plan):  # False: it was changed meanwhile, and is checked again
            self._runtime.crash(CrashPoint.RUN_PLANNED)

    async def _build_plan(self, job: Job, now: float) -> RunPlan:
        assert job.next_due is not None, "only what is due is planned"
        spec, zone = job.spec, zone_of(job.spec.schedule.zone)
        most = due_times_needed(spec.missed)
        times, more = due_times(spec.schedule, first=job.next_due, until=now, limit=most, zone=zone)
        late_after = self._live_settings.current.jobs.late_after
        runs = plan_runs(job, times or [job.next_due], more=more, now=now, late_after=late_after)
        begins = any(run.skip_reason is None for run in runs)
        return RunPlan(
            job_id=job.id,
            principal=job.principal,
            was_due=job.next_due,
            next_due=next_due(spec.schedule, now, zone),
            runs=tuple(await self._after_overlap(job, runs)),
            drop_waiting_reason=SKIPPED_REPLACED
            if begins and spec.overlap is OverlapPolicy.REPLACE
            else "",
            at=now,
        )

    async def _after_overlap(self, job: Job, runs: list[NewRun]) -> list[NewRun]:
        if job.spec.overlap is OverlapPolicy.REPLACE:
            return runs
        waiting = await self._store.read(CountWaitingRuns(job_id=job.id))
        return apply_overlap_policy(
            job, runs, waiting=waiting, busy=job.id in self._executor.running
        )

    async def _pause_job(self, job: Job, why: str) -> None:
        """Pause a job whose due times cannot be computed any more; the others continue."""
        log.error(
            "Paused job %d, because its schedule cannot be used: %s; change it with `holdfast "
            "jobs edit`, then resume it",
            job.id,
            why,
            extra={"action": "job_paused", "job": job.id},
        )
        await self._store.write(
            JobChange(job_id=job.id, principal=job.principal, kind=JobChangeKind.PAUSE)
        )

    async def _start_waiting(self) -> None:
        free = self._live_settings.current.jobs.parallel - len(self._executor.running)
        if free <= 0:
            return
        for waiting in await self._store.read(
            ListWaitingRuns(busy=self._executor.running.ids, limit=free)
        ):
            if self._closed:
                return
            await self._start(waiting)

    async def _start(self, waiting: WaitingRun) -> None:
        """Start a run, or skip it if its owner may not talk to the agent any more."""
        job = waiting.job
        if not self._may_talk(job.spec.source):
            await self._store.write(
                SkipRuns(
                    job_id=job.id, principal=job.principal, why=_NOT_ALLOWED, run_id=waiting.id
                )
            )
            self._woken.set()
            return
        try:
            await self._executor.start(waiting)
        except StoreError:
            run = await self._store.read(GetJobRun(run_id=waiting.id))
            if run is not None and run.state is RunState.WAITING:
                raise  # the store has failed; otherwise it was stopped meanwhile
