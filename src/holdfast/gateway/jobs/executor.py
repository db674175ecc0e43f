"""Executes job runs: submits each as a message, follows it to its end, and stops it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from holdfast.core.config.settings import route_of
from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, SessionId, SessionKey
from holdfast.core.jobs.job import (
    JOBS_ACCOUNT,
    SILENT_REPLY,
    Job,
    JobId,
    OverlapPolicy,
    RunPlan,
    RunRequest,
    RunSession,
    RunState,
    WaitingRun,
)
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxRow
from holdfast.core.messages.outbox import Address
from holdfast.core.messages.source import Source
from holdfast.core.people.memory import OwnerId, job_memory_owner, memory_owner
from holdfast.core.ports.command import Committed
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.ports.store_commands import AcceptMessage, SkipRuns
from holdfast.core.ports.store_queries import (
    GetJob,
    GetJobRun,
    GetRouteSession,
    ListJobRuns,
    ListRunningRuns,
)
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.locale_format import format_long_duration
from holdfast.core.turns.subagent import INTERNAL_PLATFORM
from holdfast.gateway.committed import accepted_message
from holdfast.gateway.jobs.service import JobDestinations, RunningJobs, source_address
from holdfast.gateway.live.subscriptions import EndFuture, MessageSubscriptions
from holdfast.gateway.live_settings import LiveSettings

log = logging.getLogger(__name__)

RUN_INSTRUCTIONS = (
    "You work on a scheduled job, and there is no person here whom you could ask: do what it "
    "says, and no more. Your final reply is what people are told of it."
)
DUE_NOTE = (
    "[System note: the job {number} ({name}) of this conversation is due now. Do what it "
    "says.{more}]"
)
SILENT_HINT = f" Where there is nothing worth telling, reply with {SILENT_REPLY} and nothing else."
OVERDUE_REASON = "stopped, because it took longer than {limit}"
RUN_COMMANDS = (AcceptMessage, RunPlan, SkipRuns, CommandEffect)
_MAX_WAITING_READ = 100  # runs of one job that was to replace its running run

SubmitRun = Callable[[WaitingRun], Awaitable[Accepted]]
"""Accepts a run as a message."""


class StopMessage(Protocol):
    """`gateway/sessions/teardown.py` `SessionStopper.stop_message`."""

    async def __call__(self, inbox_id: InboxId, *, why: str) -> bool: ...


class JobExecutor:
    """Submits job runs, and follows the commits of messages, plans and stops: a run is running from
    the commit of its message until its end. `RunningJobs` has the running ones; all else is in the
    store. `run_ended` is set when a slot is free."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        running: RunningJobs,
        submit: SubmitRun,
        *,
        subscriptions: MessageSubscriptions,
        stop_message: StopMessage,
        close_session: Callable[[SessionId], Awaitable[None]],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._submit = submit
        self._subscriptions = subscriptions
        self._stop_message = stop_message
        self.running = running
        self.run_ended = asyncio.Event()  # a slot is free
        self._close = close_session
        self._tasks = tasks

    def on_committed(self, event: Committed) -> None:
        """Follow a run whose message was accepted, and which the router has given to its lane; stop
        the running run that a commit replaces or stops."""
        if isinstance(event.command, AcceptMessage):
            if event.command.inbound.run is not None and (accepted := accepted_message(event)):
                self._follow(accepted.row)
            return
        job_id = _stopped_job(event)
        if job_id is not None and (inbox_id := self.running.message_of(job_id)) is not None:
            self._begin_stop(job_id, inbox_id)

    async def follow_recovered(self) -> None:
        """Follow the runs of an earlier process, and stop those that it was about to replace."""
        for row in await self._store.read(ListRunningRuns()):
            self._follow(row)
            run = row.inbound.run
            if run is not None and await self._is_replaced(run):
                self._begin_stop(run.job_id, row.id)

    async def _is_replaced(self, run: RunRequest) -> bool:
        """Whether a later plan of its job has a run that waits in its place."""
        job = await self._store.read(GetJob(job_id=run.job_id))
        own = await self._store.read(GetJobRun(run_id=run.id))
        if job is None or own is None or job.spec.overlap is not OverlapPolicy.REPLACE:
            return False
        newest = await self._store.read(ListJobRuns(job_id=job.id, limit=_MAX_WAITING_READ))
        return any(each.state is RunState.WAITING and each.made_at > own.made_at for each in newest)

    async def start(self, waiting: WaitingRun) -> None:
        """Returns when the run is in the inbox. Raises `StoreError` if that is not possible, or if
        it was stopped meanwhile."""
        await self._submit(waiting)
        self._runtime.crash(CrashPoint.RUN_BEGUN)
        log.info(
            "Started job %d",
            waiting.job.id,
            extra={"action": "job_run_started", "job": waiting.job.id, "run": waiting.id},
        )

    async def stop(self, job_id: JobId, why: str = "") -> bool:
        """Stop the running run of a job, as /stop does; False: there is none. With a reason, the
        run has failed, and its chat is notified."""
        inbox_id = self.running.message_of(job_id)
        if inbox_id is None:
            return False
        return await self._stop_message(inbox_id, why=why)

    def _begin_stop(self, job_id: JobId, inbox_id: InboxId) -> None:
        """Stop that run and no later one of its job."""
        self.running.stops[job_id] = self._tasks.create_task(
            self._try_stop(job_id, inbox_id), name=f"stop job {job_id}"
        )

    async def _try_stop(self, job_id: JobId, inbox_id: InboxId) -> bool | StoreError:
        try:
            return await self._stop_message(inbox_id, why="")
        except StoreError as error:
            log.error(
                "Could not stop the run of job %d: %s",
                job_id,
                error,
                extra={"action": "job_run_not_stopped", "job": job_id},
            )
            return error
        finally:
            if self.running.stops.get(job_id) is asyncio.current_task():
                del self.running.stops[job_id]

    def _follow(self, row: InboxRow) -> None:
        run = row.inbound.run
        if run is None or row.id not in self._subscriptions:
            self.run_ended.set()  # it has ended since it was read, or the gateway stops
            return
        self.running.add(run.job_id, row.id)
        ending = self._subscriptions.end_of(row.id)
        self._tasks.create_task(self._until_ended(row, run, ending), name=f"run {run.id}")

    async def _until_ended(self, row: InboxRow, run: RunRequest, ending: EndFuture) -> None:
        try:
            ended = await self._wait_for_end(run, ending)
        finally:
            self.running.remove(run.job_id)
        self.run_ended.set()
        own = ended is not None and row.inbound.source.platform == INTERNAL_PLATFORM
        if ended is not None and own and ended.session_id is not None:
            await self._close(ended.session_id)  # the commit of that end has ended the session

    async def _wait_for_end(self, run: RunRequest, ending: EndFuture) -> MessageEnded | None:
        """None: the gateway stops before it."""
        try:
            async with asyncio.timeout(run.limit or None):
                return await asyncio.shield(ending)
        except TimeoutError:
            await self._stop_overdue(run)
        return await ending

    async def _stop_overdue(self, run: RunRequest) -> None:
        try:
            await self.stop(
                run.job_id, OVERDUE_REASON.format(limit=format_long_duration(run.limit))
            )
        except StoreError as error:
            log.error(
                "Job %d exceeded its time limit and could not be stopped: %s",
                run.job_id,
                error,
                extra={"action": "job_run_overdue", "job": run.job_id},
            )


def _stopped_job(event: Committed) -> JobId | None:
    """The job whose running run a commit ends: one that is planned replaces it, or the runs of the
    job were stopped. A waiting run may have started before that commit."""
    command, planned = event.command, True
    plan, stopped = None, None
    match command:
        case RunPlan():
            plan, planned = command, event.result
        case SkipRuns(run_id=None):
            stopped = command.job_id
        case CommandEffect(skip_runs=skip, runs=runs):
            plan, stopped = runs, skip.job_id if skip else None
    if plan is not None and planned and plan.drop_waiting_reason:
        return plan.job_id
    return stopped


async def submit_run(
    store: Store,
    runtime: Runtime,
    live_settings: LiveSettings,
    destinations: JobDestinations,
    waiting: WaitingRun,
) -> Accepted:
    """Accept a run as a message. Its commit routes it, like every other message."""
    spec, sessions = waiting.job.spec, live_settings.current.sessions
    asked_in = None
    if spec.runs_in is not RunSession.HERE:
        # Its people can answer approvals in their conversation there.
        asked_in = await store.read(GetRouteSession(key=route_of(spec.source, sessions)))
    address = destinations.address_of(spec)
    inbound = _run_message(
        waiting,
        address=address,
        asked_in=asked_in,
        owner=_memory_owner(waiting.job, address, route_of(spec.source, sessions)),
    )
    return await store.write(
        AcceptMessage(
            inbound=inbound,
            route=route_of(inbound.source, sessions),
            principal=waiting.job.principal,
            at=runtime.clock.now(),
        )
    )


def _run_message(
    waiting: WaitingRun,
    *,
    address: Address | None,
    asked_in: SessionId | None,
    owner: OwnerId,
) -> Inbound:
    job, spec = waiting.job, waiting.job.spec
    here = spec.runs_in is RunSession.HERE
    more = SILENT_HINT if spec.silent else ""
    note = DUE_NOTE.format(number=job.id, name=spec.name, more=more)
    event_id = f"{INTERNAL_PLATFORM}:job.{waiting.id}"
    return Inbound(
        source=spec.source if here else _own_source(waiting),
        event_id=event_id,
        message_id=event_id,
        text=f"{note}\n\n{spec.text}" if here else spec.text,
        busy_mode=BusyMode.QUEUE,
        mergeable=False,
        commands=False,
        lasting=here,
        instructions="" if here else f"{RUN_INSTRUCTIONS}{more}",
        note=here,
        run=RunRequest(
            id=waiting.id,
            job_id=job.id,
            name=spec.name,
            due_at=waiting.due_at,
            address=address,
            silent=spec.silent,
            limit=spec.limit,
            asked_in=asked_in,
            memory_owner="" if here else owner,
        ),
    )


def _memory_owner(job: Job, address: Address | None, route: SessionKey) -> OwnerId:
    """Whose notes a run with a session of its own reads and writes: those of the conversation that
    reads its answer. `route` is that of the chat in which the job was created."""
    if address is None or address == source_address(job.spec.source):
        return memory_owner(route, job.principal)
    return job_memory_owner(job.id)


def _own_source(waiting: WaitingRun) -> Source:
    """A source like the one in which the job was created, so that the run has no more access to a
    person's data than the chat to which its answer is sent."""
    made = waiting.job.spec.source
    return Source(
        platform=INTERNAL_PLATFORM,
        account=JOBS_ACCOUNT,
        chat_id=waiting.id,
        chat_type=made.chat_type,
        thread_id=made.thread_id,
        user_id=waiting.job.principal,
        user_name=made.user_name,
        language=made.language,
    )
