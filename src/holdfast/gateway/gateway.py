"""The gateway: all who take, run and answer messages, with one way to start and one to stop."""

import asyncio
import logging
from typing import Any, Self

from holdfast.agent.auxiliary import Auxiliary
from holdfast.core.child import ChildKind
from holdfast.core.errors import HoldfastError
from holdfast.core.ids import DeliveryId, InboxId, SessionId
from holdfast.core.ports import Lifecycle, Platform
from holdfast.core.stopping import AskedBy, StopKind, StopOrder
from holdfast.gateway.accounts import Accounts
from holdfast.gateway.approvals import Approvals
from holdfast.gateway.authorise import Authority
from holdfast.gateway.children import Children
from holdfast.gateway.closing import Closing
from holdfast.gateway.commands.command import Command
from holdfast.gateway.commands.desk import CommandDesk
from holdfast.gateway.connection import Ground
from holdfast.gateway.delivery import Delivery
from holdfast.gateway.denials import Denials
from holdfast.gateway.documents.documents import Documents
from holdfast.gateway.doors import Doors
from holdfast.gateway.expiry import Expiry
from holdfast.gateway.furnishing import Built, furnish, traces_of
from holdfast.gateway.groups import Groups
from holdfast.gateway.homes import Homes
from holdfast.gateway.household import Household
from holdfast.gateway.in_force import InForce
from holdfast.gateway.inner_door import InnerDoor
from holdfast.gateway.insisting import Insisting
from holdfast.gateway.intake import Gatehouse
from holdfast.gateway.job_door import JobDoor
from holdfast.gateway.lanes import Lanes
from holdfast.gateway.outfit import Outfit
from holdfast.gateway.outgoing import OutgoingFiles
from holdfast.gateway.paired import Paired
from holdfast.gateway.pairing import Pairing
from holdfast.gateway.parts import Parts
from holdfast.gateway.paused import Paused
from holdfast.gateway.receipts import Receipts
from holdfast.gateway.receiving import Receiving
from holdfast.gateway.reception import Reception
from holdfast.gateway.recovery import Recovery
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.scheduler import ClockAlarm
from holdfast.gateway.sessions import SessionStore
from holdfast.gateway.settling import settle_children, settle_jobs
from holdfast.gateway.shutdown import Phase, run_phases
from holdfast.gateway.standing import standing
from holdfast.gateway.stop import InUse, Stop
from holdfast.gateway.strangers import Strangers
from holdfast.gateway.telling import Telling
from holdfast.gateway.threshold import Threshold

log = logging.getLogger(__name__)


class Broken(HoldfastError):
    """A bug of ours: the gateway has stopped, phase by phase, rather than go on without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class Gateway:
    """Owns the life of the house: entered, it has recovered and takes messages; left, it has
    stopped phase by phase, and all that is owed is in the store."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._in_force = InForce(parts.settings)
        self._children = Children(store=parts.store, clock=parts.clock, new_id=parts.new_id)
        inner: list[Platform] = [InnerDoor(kind, self._children) for kind in ChildKind]
        inner.append(JobDoor())
        self._doors = Doors([*parts.platforms, *inner], clock=parts.clock)
        self._redact = parts.redact or Redaction(parts.secrets)
        self._household = Household()
        self._tasks = self._household.tasks
        self._stopping: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self.stopped = asyncio.Event()  # set when the last of its phases has run
        self._stop: Stop | None = None  # the one that is under way, or over
        self.resumed = 0  # turns of earlier processes that this one goes on with
        self._watcher: asyncio.Task[None] | None = None  # of the household, on behalf of `with`
        self._told: asyncio.Task[Any] | None = None  # was cancelled by it
        self._outgoing = OutgoingFiles(parts.read_file, redact=self._redact, drop=parts.drop_file)
        self.receipts = Receipts()
        self._traces = traces_of(parts, redact=self._redact)
        self.delivery = Delivery(
            self._doors,
            journal=parts.store,
            clock=parts.clock,
            redact=self._redact,
            crash=parts.crash,
            outgoing=self._outgoing,
            receipts=self.receipts,
            failed=self._unheard,
            traces=self._traces,
        )
        self._auxiliary = Auxiliary(parts.settings, lease=parts.lease, model=parts.model.name)
        self.house = furnish(parts, self._built())
        self.closing = Closing(self.house.cache)
        self.closing.add([parts.runners, self.house.memory, self._auxiliary, *parts.holders])
        self.lanes = Lanes(self.house, tasks=self._tasks)
        self.sessions = SessionStore(
            self.house,
            self.lanes,
            processes=parts.runners.processes,
            close=self.closing.close,
            tasks=self._tasks,
        )
        self.expiry = Expiry(
            self.house,
            self.lanes,
            self.closing,
            policies=lambda: self.sessions.policies,
            processes=parts.runners.processes,
        )
        self.lanes.on_silence = self.expiry.stirred
        self.insisting = Insisting(self.house, self.lanes, suspend=self.sessions.suspend)
        self.paired = Paired(parts.store)
        self.pairing = Pairing(self.house, self.paired)
        self.authority = authority = Authority(parts.settings, paired=self.paired)
        self.approvals = Approvals(self.house, self.lanes, authority=authority)
        self.homes = Homes(self._in_force, self._doors, library=parts.store)
        self.house.outreach.settle_in(authority, self.homes)
        self.telling = Telling(self.house, self.lanes, self.homes)
        self.desk = CommandDesk(self.house, self.lanes, authority=authority, tasks=self._tasks)
        self._reception = Reception(
            self.desk,
            self.sessions,
            approvals=self.approvals,
            children=self._children,
            watchers=self.house.watchers,
        )
        groups = Groups(parts.settings)
        self.denials = Denials(parts.store, clock=parts.clock)
        threshold = Threshold(
            authority,
            groups,
            Strangers(self.house, self.paired, denials=self.denials),
            clock=parts.clock,
        )
        self.documents = Documents()
        self.intake = Gatehouse(
            self.house,
            threshold=threshold,
            receiving=Receiving(
                self.sessions,
                in_force=self._in_force,
                documents=self.documents,
                put=parts.put_file,
                redact=self.house.redact,
            ),
            admit=self._reception.admit,
        )
        self.accounts = self._accounts_of(parts)
        self._doors.on_lost = self.accounts.lost
        self._settle_in(parts)
        self._in_force.tell(
            authority.follow,
            groups.follow,
            self.house.quiet.follow,
            self.house.cache.follow,
            self.house.memory.follow,
            self.sessions.follow,
            self.expiry.follow,
        )
        self.desk.made_by(lambda: self._commands(parts.lifecycle))

    def _commands(self, lifecycle: Lifecycle | None) -> list[Command]:
        from holdfast.gateway.commands.every import every_command  # noqa: PLC0415 - see the desk

        return every_command(
            self.house,
            self.lanes,
            desk=self.desk,
            sessions=self.sessions,
            approvals=self.approvals,
            authority=self.authority,
            close=self.closing.close,
            insisting=self.insisting,
            homes=self.homes,
            telling=self.telling,
            pairing=self.pairing,
            lifecycle=lifecycle,
        )

    def _accounts_of(self, parts: Parts) -> Accounts:
        ground = Ground(
            intake=self.intake,
            doors=self._doors,
            claims=parts.claims,
            clock=parts.clock,
            random=parts.random,
            patience=parts.patience,
            tasks=self._tasks,
            opened=self.delivery.connected,
            gone=self.delivery.gone,
            redact=self.house.redact,
            stirred=self.house.feeds.stirred,
        )
        return Accounts(ground, Paused(parts.store, clock=parts.clock))

    def _settle_in(self, parts: Parts) -> None:
        settle_children(
            self._children,
            self.house,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            closing=self.closing,
            tasks=self._tasks,
        )
        self.runs, self.scheduler = settle_jobs(
            self.house,
            self.lanes,
            intake=self.intake,
            sessions=self.sessions,
            closing=self.closing,
            homes=self.homes,
            authority=self.authority,
            alarm=parts.alarm or ClockAlarm(parts.clock),
            tasks=self._tasks,
        )

    def _built(self) -> Built:
        return Built(
            in_force=self._in_force,
            doors=self._doors,
            redact=self._redact,
            delivery=self.delivery,
            outgoing=self._outgoing,
            children=self._children,
            auxiliary=self._auxiliary,
            tasks=self._tasks,
            close=self._close_session,
            traces=self._traces,
        )

    async def __aenter__(self) -> Self:
        inside = asyncio.current_task()
        assert inside is not None, "this is awaited by a task"
        self._watcher = asyncio.create_task(self._watch_over(inside), name="watch the household")
        try:
            await self.start()
        except BaseException:
            # Nobody else could: turns that were resumed run already, and doors stand open.
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
        await self.stop()
        if self._told is not None:
            self._told.uncancel()  # it hears `Broken` instead
        if self._household.failure is not None:
            raise Broken(self._household.failure) from self._household.failure

    async def _watch_over(self, inside: asyncio.Task[Any]) -> None:
        """Whoever is inside is told by being cancelled, as by a task group."""
        await self.broken.wait()
        inside.cancel()
        self._told = inside

    @property
    def broken(self) -> asyncio.Event:
        """Set when a task that was never to fail has failed: the gateway is to be stopped."""
        return self._household.broken

    @property
    def failure(self) -> HoldfastError | None:
        """What to tell of it, once it has stopped."""
        failure = self._household.failure
        return None if failure is None else Broken(failure)

    async def start(self) -> None:
        """Returns when it has recovered and takes messages; that it runs is said by who has more
        to open. May be cancelled anywhere, and is by a stop: its phases end what was begun, and
        skip what was not."""
        self._starting = asyncio.create_task(self._start(), name="start")
        await self._starting

    async def _give_up_start(self) -> None:
        """Nothing more is begun when this returns."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})

    async def _start(self) -> None:
        await self._household.open()
        recovery = Recovery(
            self.house,
            self.lanes,
            delivery=self.delivery,
            runners=self._parts.runners,
            admit=self._reception.admit_late,
            suspend_recent=self.sessions.suspend_recently_active,
        )
        await self.house.memory.start()
        self._parts.progress("recovering")
        await self.homes.load()
        await self.house.quiet.load(self._parts.store)
        await self.paired.load()
        self.resumed = await recovery.run()
        await self._children.recovered()
        await self.runs.recovered()
        self.intake.open()
        self._parts.progress("connecting")
        await self.accounts.open()
        self._household.stay(self.expiry.run(), name="expiry")
        self._household.stay(self.scheduler.run(), name="scheduler")

    async def stop(
        self, order: StopOrder | None = None, *, hurried: asyncio.Event | None = None
    ) -> None:
        """Run the phases, once: whoever calls again waits for the same stop. Without an order it
        is as if a signal had come that nobody planned."""
        if self._stopping is None:
            order = order or StopOrder(
                kind=StopKind.SIGNAL, by=AskedBy.SIGNAL, at=self._parts.clock.now()
            )
            phases = self.phases(order, hurried=hurried or asyncio.Event())
            running = run_phases(phases, progress=self._parts.progress)
            self._stopping = asyncio.create_task(running, name="stop")
        await asyncio.shield(self._stopping)

    def phases(self, order: StopOrder, *, hurried: asyncio.Event) -> list[Phase]:
        """The stop of a gateway, in the order in which it is to happen, whatever has been started.

        `hurried`: nothing more is waited for, from the instant in which it is set.
        """
        self._stop = Stop(order, self._in_use(), hurried=hurried)
        return self._stop.phases()

    def _in_use(self) -> InUse:
        return InUse(
            house=self.house,
            lanes=self.lanes,
            intake=self.intake,
            expiry=self.expiry,
            delivery=self.delivery,
            accounts=self.accounts,
            household=self._household,
            runners=self._parts.runners,
            holders=self._parts.holders,
            give_up_start=self._give_up_start,
            farewell=self.telling.farewell,
            progress=self._parts.progress,
            stopped=self.stopped,
        )

    @property
    def parked(self) -> int:
        """Turns that a stop has left at a step boundary."""
        return self._stop.draining.parked if self._stop else 0

    @property
    def interrupted(self) -> int:
        """Turns that a stop has cut."""
        return self._stop.draining.interrupted if self._stop else 0

    def adopt(self, outfit: Outfit) -> None:
        """Put another configuration into force, in one step: a turn that runs keeps what it began
        with, and the next one of every chat has this. What was a secret before stays one."""
        self._redact.learn(outfit.secrets)
        self.house.agents.follow(outfit)
        self._auxiliary.follow(outfit.settings, lease=outfit.lease, model=outfit.model.name)
        if self._traces is not None:
            self._traces.model = outfit.model
        self._in_force.put(outfit.settings)
        self.house.feeds.stirred()

    async def quiet(self) -> None:
        """Returns when no turn runs."""
        await self.lanes.quiet()

    async def _close_session(self, session_id: SessionId) -> None:
        await self.closing.close(session_id)

    def _unheard(self, delivery_id: DeliveryId) -> None:
        self._tasks.create_task(self.approvals.undeliverable(delivery_id), name="undeliverable")

    def snapshot(self) -> dict[str, Any]:
        """What is true now, from memory alone: cheap enough to be asked often."""
        return {
            **standing(self.house, self.lanes, self.delivery),
            "homes": tuple(self.homes.all()),
        }

    def owned(self) -> frozenset[InboxId]:
        """The messages that are worked on here; an end is known here after its commit."""
        return self.house.watchers.ids
