"""Starts a gateway, watches over its tasks while it runs, and stops it phase by phase."""

import asyncio
from typing import Any, Self

from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.app import Gateway
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.lifecycle.recovery import Recovery
from holdfast.gateway.lifecycle.stop import GatewayStop


class GatewayCrashed(HoldfastError):
    """A bug of ours: the gateway has stopped, phase by phase, rather than go on without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class RunningGateway:
    """Owns the start and the stop of a gateway: entered, it has recovered and takes messages;
    left, it has stopped phase by phase, and all that is owed is in the store."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stop: GatewayStop | None = None  # the one that is under way, or over
        self.stopped = asyncio.Event()  # set when the last of its phases has run
        self.resumed = 0  # turns of earlier processes that this one goes on with
        self._failure_watcher: asyncio.Task[None] | None = (
            None  # of the household, on behalf of `with`
        )
        self._cancelled_task: asyncio.Task[Any] | None = None  # was cancelled by it

    async def __aenter__(self) -> Self:
        inside = asyncio.current_task()
        assert inside is not None, "this is awaited by a task"
        self._failure_watcher = asyncio.create_task(
            self._cancel_on_failure(inside), name="watch the household"
        )
        try:
            await self.start()
        except BaseException:
            # Nobody else could: turns that were resumed run already, and doors stand open.
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._failure_watcher is not None:
            self._failure_watcher.cancel()
        await self.stop()
        if self._cancelled_task is not None:
            self._cancelled_task.uncancel()  # it hears `Broken` instead
        if (failure := self.gateway.task_group.failure) is not None:
            raise GatewayCrashed(failure) from failure

    async def _cancel_on_failure(self, task: asyncio.Task[Any]) -> None:
        """Whoever is inside is told by being cancelled, as by a task group."""
        await self.failed.wait()
        task.cancel()
        self._cancelled_task = task

    @property
    def failed(self) -> asyncio.Event:
        """Set when a task that was never to fail has failed: the gateway is to be stopped."""
        return self.gateway.task_group.failed

    @property
    def failure(self) -> HoldfastError | None:
        """What to tell of it, once it has stopped."""
        failure = self.gateway.task_group.failure
        return None if failure is None else GatewayCrashed(failure)

    async def start(self) -> None:
        """Returns when it has recovered and takes messages; that it runs is said by who has more
        to open. May be cancelled anywhere, and is by a stop: its phases end what was begun, and
        skip what was not."""
        self._starting = asyncio.create_task(self._start(), name="start")
        await self._starting

    async def _cancel_start(self) -> None:
        """Nothing more is begun when this returns."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})

    async def _start(self) -> None:
        gateway, parts, house = self.gateway, self.gateway.dependencies, self.gateway.services
        await gateway.task_group.open()
        recovery = Recovery(
            house,
            gateway.lanes,
            outbox=gateway.outbox,
            runners=parts.runners,
            admit=gateway.router.route_recovered,
            suspend_recent=gateway.sessions.suspend_recently_active,
        )
        await house.memory.start()
        parts.progress("recovering")
        await gateway.home_channels.load()
        await house.quiet_chats.load(parts.store)
        await gateway.paired_users.load()
        self.resumed = await recovery.run()
        await house.subagents.follow_recovered()
        await gateway.job_executor.follow_recovered()
        gateway.intake.open()
        parts.progress("connecting")
        await gateway.accounts.open()
        gateway.task_group.run_until_closed(gateway.expiry.run(), name="expiry")
        gateway.task_group.run_until_closed(gateway.scheduler.run(), name="scheduler")

    async def stop(
        self, order: StopOrder | None = None, *, hurried: asyncio.Event | None = None
    ) -> None:
        """Run the phases, once: whoever calls again waits for the same stop. Without an order it
        is as if a signal had come that nobody planned."""
        if self._stopping is None:
            parts = self.gateway.dependencies
            order = order or StopOrder(
                kind=StopKind.SIGNAL, by=StopRequester.SIGNAL, at=parts.clock.now()
            )
            phases = self.phases(order, hurried=hurried or asyncio.Event())
            running = run_phases(phases, progress=parts.progress)
            self._stopping = asyncio.create_task(running, name="stop")
        await asyncio.shield(self._stopping)

    def phases(self, order: StopOrder, *, hurried: asyncio.Event) -> list[Phase]:
        """The stop of a gateway, in the order in which it is to happen, whatever has been started.

        `hurried`: nothing more is waited for, from the instant in which it is set.
        """
        self._stop = GatewayStop(
            order,
            self.gateway,
            hurried=hurried,
            cancel_start=self._cancel_start,
            stopped=self.stopped,
        )
        return self._stop.phases()

    @property
    def parked(self) -> int:
        """Turns that a stop has left at a step boundary."""
        return self._stop.drainer.parked if self._stop else 0

    @property
    def interrupted(self) -> int:
        """Turns that a stop has cut."""
        return self._stop.drainer.interrupted if self._stop else 0
