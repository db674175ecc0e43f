"""Runs: those that are at work, each begun as a message, followed to its end, and stopped."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.core.crash_points import CrashPoint
from holdfast.core.errors import StoreError
from holdfast.core.ids import InboxId, PrincipalId, SessionId, SessionKey
from holdfast.core.jobs.job import JOBS, SILENT, Job, JobId, Run, RunsIn, WaitingRun
from holdfast.core.messages.events import MessageEnded
from holdfast.core.messages.inbox import Accepted, BusyMode, Inbound, InboxEnd, InboxRow, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.turns.subagent import HOUSE
from holdfast.gateway.approvals.prompt import lasting
from holdfast.gateway.commands.reply import settle
from holdfast.gateway.jobs.destinations import Destinations
from holdfast.gateway.live.subscriptions import Ending
from holdfast.gateway.services import House
from holdfast.gateway.turns.endings import STOPPED
from holdfast.gateway.turns.lane import Lane
from holdfast.gateway.turns.lanes import Lanes

log = logging.getLogger(__name__)

ALONE = (
    "You work on a scheduled job, and nobody is here whom you could ask: do what it says, and no "
    "more. Your final reply is what people are told of it."
)
HERE = (
    "[System note: the job {number} ({name}) of this conversation is due now. Do what it "
    "says.{more}]"
)
QUIETLY = f" Where there is nothing worth telling, reply with {SILENT} and nothing else."
LATE = "it was stopped, because it took longer than {limit}"


class RunWays(msgspec.Struct, frozen=True, kw_only=True):
    """What runs need of the gateway besides its house and its lanes."""

    keep: Callable[[Inbound, PrincipalId], Awaitable[Accepted]]
    close: Callable[[SessionId], Awaitable[None]]
    key: Callable[[Source], SessionKey]
    destinations: Destinations
    tasks: asyncio.TaskGroup


class Runs:
    """Owns the list of runs at work, of which a job has one at a time; all else about them is in
    the store. `ended` is told when a place is free."""

    def __init__(
        self, house: House, lanes: Lanes, ways: RunWays, *, ended: Callable[[], None]
    ) -> None:
        self._house = house
        self._lanes = lanes
        self._ways = ways
        self._ended = ended
        self._at_work: dict[JobId, InboxId] = {}

    def __len__(self) -> int:
        return len(self._at_work)

    def __contains__(self, job_id: JobId) -> bool:
        return job_id in self._at_work

    @property
    def busy(self) -> tuple[JobId, ...]:
        return tuple(self._at_work)

    async def recovered(self) -> None:
        """Take note of what goes on from an earlier process."""
        for row in await self._house.store.runs_at_work():
            self._follow(row)

    async def begin(self, waiting: WaitingRun) -> None:
        """Returns when it is in the inbox, and so on its way to a lane. Raises `StoreError`
        where that cannot be, or where somebody has stopped it meanwhile."""
        inbound = await self._inbound(waiting)
        accepted = await self._ways.keep(inbound, waiting.job.principal)
        self._house.crash(CrashPoint.RUN_BEGUN)
        log.info(
            "Job %d runs.",
            waiting.job.id,
            extra={"action": "run_begun", "job": waiting.job.id, "run": waiting.id},
        )
        self._follow(accepted.row)

    async def stop(self, job_id: JobId, why: str = "") -> bool:
        """End what runs of a job, as /stop does; False: nothing does. With a reason it has
        failed, and its people are told."""
        inbox_id = self._at_work.get(job_id)
        if inbox_id is None:
            return False
        for lane in self._lanes:
            if lane.answering == inbox_id:
                return _stop_turn(lane, why)
            if any(row.id == inbox_id for row in lane.waiting):
                await self._drop(lane, inbox_id, why or STOPPED)
                return True
        return False

    async def _drop(self, lane: Lane, inbox_id: InboxId, why: str) -> None:
        """It waits behind something else, which goes on, as does all that waits besides."""
        waiting = lane.drop_waiting()
        for row in waiting:
            if row.id != inbox_id:
                lane.admit(row)
        end = InboxEnd(inbox_id=inbox_id, state=InboxState.SUPERSEDED, reason=why)
        effect = CommandEffect(
            inbox_ends=(end,), session_id=lane.session_id, at=self._house.clock.now()
        )
        try:
            await settle(self._house, effect, again=())
        except StoreError:
            own = [row for row in waiting if row.id == inbox_id]
            self._lanes.give_back(own, lane.session_id)
            raise

    def _follow(self, row: InboxRow) -> None:
        run = row.inbound.run
        if run is None or row.id not in self._house.watchers:
            self._ended()  # since it was read; or it came in as the gateway stopped
            return
        self._at_work[run.job_id] = row.id
        ending = self._house.watchers.end_of(row.id)
        self._ways.tasks.create_task(self._until_ended(row, run, ending), name=f"run {run.id}")

    async def _until_ended(self, row: InboxRow, run: Run, ending: Ending) -> None:
        try:
            ended = await self._end_of(run, ending)
        finally:
            del self._at_work[run.job_id]
        self._ended()
        own = ended is not None and row.inbound.source.platform == HOUSE
        if ended is not None and own and ended.session_id is not None:
            await self._close(ended.session_id)

    async def _end_of(self, run: Run, ending: Ending) -> MessageEnded | None:
        """None: the gateway stops before it."""
        try:
            async with asyncio.timeout(run.limit or None):
                return await asyncio.shield(ending)
        except TimeoutError:
            await self._stop_late(run)
        return await ending

    async def _stop_late(self, run: Run) -> None:
        try:
            await self.stop(run.job_id, LATE.format(limit=lasting(run.limit)))
        except StoreError as error:
            log.error("A late run goes on: %s", error, extra={"action": "run_late"})

    async def _close(self, session_id: SessionId) -> None:
        """Nobody comes back to the session of a run."""
        try:
            await self._house.store.end_session(session_id, at=self._house.clock.now())
        except StoreError as error:
            log.warning("A run's session stays open: %s", error, extra={"action": "run"})
        await self._ways.close(session_id)

    async def _inbound(self, waiting: WaitingRun) -> Inbound:
        job, spec = waiting.job, waiting.job.spec
        here = spec.runs_in is RunsIn.HERE
        more = QUIETLY if spec.silent else ""
        note = HERE.format(number=job.id, name=spec.name, more=more)
        event_id = f"{HOUSE}:job.{waiting.id}"
        return Inbound(
            source=spec.source if here else _own_source(waiting),
            event_id=event_id,
            message_id=event_id,
            text=f"{note}\n\n{spec.text}" if here else spec.text,
            busy_mode=BusyMode.QUEUE,
            mergeable=False,
            commands=False,
            lasting=here,
            instructions="" if here else f"{ALONE}{more}",
            note=here,
            run=Run(
                id=waiting.id,
                job_id=job.id,
                name=spec.name,
                due_at=waiting.due_at,
                address=self._ways.destinations.of(spec),
                silent=spec.silent,
                limit=spec.limit,
                asked_in=None if here else await self._asked_in(job),
            ),
        )

    async def _asked_in(self, job: Job) -> SessionId | None:
        """Its people can answer what it asks in the conversation that they have there."""
        return await self._house.store.route(self._ways.key(job.spec.source))


def _own_source(waiting: WaitingRun) -> Source:
    """In the likeness of where the job was made: a run knows no more of a person than the chat
    does that its answer is told in."""
    made = waiting.job.spec.source
    return Source(
        platform=HOUSE,
        account=JOBS,
        chat_id=waiting.id,
        chat_type=made.chat_type,
        thread_id=made.thread_id,
        user_id=waiting.job.principal,
        user_name=made.user_name,
    )


def _stop_turn(lane: Lane, why: str) -> bool:
    if why and lane.turn is not None:
        lane.turn.interrupt(why)
        return True
    return lane.stop((), ())
