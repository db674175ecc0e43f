"""The scheduler: one task that plans what is due, begins what waits, and sleeps until the next."""

import asyncio
import logging
from collections.abc import Callable

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.jobs.job import (
    ChangeKind,
    Job,
    JobChange,
    NewRun,
    Overlap,
    RunPlan,
    RunState,
    WaitingRun,
)
from holdfast.core.jobs.run_planning import REPLACED, behind, looked_at, runs_due
from holdfast.core.jobs.schedule import due_times, next_due
from holdfast.core.messages.source import Source
from holdfast.core.ports.protocols import Alarm, Clock
from holdfast.gateway.jobs.executor import Runs
from holdfast.gateway.jobs.time_zones import zone_of
from holdfast.gateway.services import House

log = logging.getLogger(__name__)

_AT_ONCE = 50  # jobs of one look; there may be thousands after a long pause
_AGAIN = 30.0  # seconds until a store that failed is asked again
_LONGEST = 86400.0
_NOT_ALLOWED = "the person whose job it is may not talk to the agent any more"


class ClockAlarm:
    """An alarm that sleeps: a clock that is set is noticed within a day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def ring(self, at: float) -> None:
        await asyncio.sleep(min(max(at - self._clock.now(), 0.0), _LONGEST))


class Scheduler:
    """Owns the time of the next look. It alone plans and begins runs, so that nothing is decided
    twice; what it decided is in the store before anything follows from it."""

    def __init__(
        self, house: House, runs: Runs, *, alarm: Alarm, may_talk: Callable[[Source], bool]
    ) -> None:
        self._house = house
        self._runs = runs
        self._alarm = alarm
        self._may_talk = may_talk
        self._woken = asyncio.Event()
        self._closed = False
        self.next_due: float | None = None

    async def run(self) -> None:
        """Until `close`."""
        while not self._closed:
            self._woken.clear()
            try:
                self.next_due = await self.look()
            except HoldfastError as error:
                log.error("The scheduler tries again: %s", error, extra={"action": "scheduler"})
                self.next_due = self._house.clock.now() + _AGAIN
            await self._sleep()

    def close(self) -> None:
        """From now on no run begins: what is due is the next start's."""
        self._closed = True
        self._woken.set()

    def stirred(self) -> None:
        """A job was changed or a run has ended: there may be something to do."""
        self._woken.set()

    async def look(self) -> float | None:
        """Plan what is due by now and begin what can be; when there will be more."""
        now = self._house.clock.now()
        due = await self._house.store.due_jobs(by=now, limit=_AT_ONCE)
        for planned in await asyncio.gather(
            *(self._plan(job, now) for job in due), return_exceptions=True
        ):
            if isinstance(planned, BaseException):
                raise planned
        await self._begin_waiting()
        return await self._house.store.next_due_job()

    async def _sleep(self) -> None:
        both: set[asyncio.Future[object]] = {asyncio.ensure_future(self._woken.wait())}
        if self.next_due is not None:
            both.add(asyncio.ensure_future(self._alarm.ring(self.next_due)))
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            ends = await asyncio.gather(*both, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end  # an alarm that fails would ring without end

    async def _plan(self, job: Job, now: float) -> None:
        try:
            plan = await self._plan_of(job, now)
        except StoreError:
            raise
        except HoldfastError as error:
            await self._set_aside(job, str(error))
            return
        if not await self._house.store.plan_runs(plan):
            return  # it was changed meanwhile, and is looked at again as it is now
        self._house.crash(CrashPoint.RUN_PLANNED)
        if plan.unwanted:
            await self._runs.stop(job.id)

    async def _plan_of(self, job: Job, now: float) -> RunPlan:
        assert job.next_due is not None, "only what is due is planned"
        spec, zone = job.spec, zone_of(job.spec.schedule.zone)
        most = looked_at(spec.missed)
        times, more = due_times(spec.schedule, first=job.next_due, until=now, most=most, zone=zone)
        late_after = self._house.settings.jobs.late_after
        runs = runs_due(job, times or [job.next_due], more=more, now=now, late_after=late_after)
        begins = any(run.skipped is None for run in runs)
        return RunPlan(
            job_id=job.id,
            was_due=job.next_due,
            next_due=next_due(spec.schedule, now, zone),
            runs=tuple(await self._behind(job, runs)),
            unwanted=REPLACED if begins and spec.overlap is Overlap.REPLACE else "",
            at=now,
        )

    async def _behind(self, job: Job, runs: list[NewRun]) -> list[NewRun]:
        if job.spec.overlap is Overlap.REPLACE:
            return runs
        waiting = await self._house.store.runs_waiting(job.id)
        return behind(job, runs, waiting=waiting, busy=job.id in self._runs)

    async def _set_aside(self, job: Job, why: str) -> None:
        """Its times cannot be known here any more; the others' can."""
        log.error("Job %d is paused: %s", job.id, why, extra={"action": "job", "job": job.id})
        await self._house.store.change_job(JobChange(job_id=job.id, kind=ChangeKind.PAUSE))

    async def _begin_waiting(self) -> None:
        free = self._house.settings.jobs.parallel - len(self._runs)
        if free <= 0:
            return
        for waiting in await self._house.store.waiting_runs(busy=self._runs.busy, limit=free):
            if self._closed:
                return
            await self._begin(waiting)

    async def _begin(self, waiting: WaitingRun) -> None:
        """One whose person may not talk here any more never begins."""
        job = waiting.job
        if not self._may_talk(job.spec.source):
            await self._house.store.skip_runs(job.id, why=_NOT_ALLOWED, run_id=waiting.id)
            self._woken.set()
            return
        try:
            await self._runs.begin(waiting)
        except StoreError:
            run = await self._house.store.job_run(waiting.id)
            if run is not None and run.state is RunState.WAITING:
                raise  # the store's trouble, and not somebody who stopped it meanwhile
