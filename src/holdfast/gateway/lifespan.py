"""A gateway that runs: how it starts, who watches over it, and its one stop."""

import asyncio
from typing import Any, Self

from holdfast.core.errors import HoldfastError
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.lifecycle.recovery import Recovery
from holdfast.gateway.lifecycle.stop import Stop


class Broken(HoldfastError):
    """A bug of ours: the gateway has stopped, phase by phase, rather than go on without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class Running:
    """Owns the start and the stop of a gateway: entered, it has recovered and takes messages;
    left, it has stopped phase by phase, and all that is owed is in the store."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stop: Stop | None = None  # the one that is under way, or over
        self.stopped = asyncio.Event()  # set when the last of its phases has run
        self.resumed = 0  # turns of earlier processes that this one goes on with
        self._watcher: asyncio.Task[None] | None = None  # of the household, on behalf of `with`
        self._told: asyncio.Task[Any] | None = None  # was cancelled by it

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
        if (failure := self.gateway.household.failure) is not None:
            raise Broken(failure) from failure

    async def _watch_over(self, inside: asyncio.Task[Any]) -> None:
        """Whoever is inside is told by being cancelled, as by a task group."""
        await self.broken.wait()
        inside.cancel()
        self._told = inside

    @property
    def broken(self) -> asyncio.Event:
        """Set when a task that was never to fail has failed: the gateway is to be stopped."""
        return self.gateway.household.broken

    @property
    def failure(self) -> HoldfastError | None:
        """What to tell of it, once it has stopped."""
        failure = self.gateway.household.failure
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
        gateway, parts, house = self.gateway, self.gateway.parts, self.gateway.house
        await gateway.household.open()
        recovery = Recovery(
            house,
            gateway.lanes,
            delivery=gateway.delivery,
            runners=parts.runners,
            admit=gateway.reception.admit_late,
            suspend_recent=gateway.sessions.suspend_recently_active,
        )
        await house.memory.start()
        parts.progress("recovering")
        await gateway.homes.load()
        await house.quiet.load(parts.store)
        await gateway.paired.load()
        self.resumed = await recovery.run()
        await house.children.recovered()
        await gateway.runs.recovered()
        gateway.intake.open()
        parts.progress("connecting")
        await gateway.accounts.open()
        gateway.household.stay(gateway.expiry.run(), name="expiry")
        gateway.household.stay(gateway.scheduler.run(), name="scheduler")

    async def stop(
        self, order: StopOrder | None = None, *, hurried: asyncio.Event | None = None
    ) -> None:
        """Run the phases, once: whoever calls again waits for the same stop. Without an order it
        is as if a signal had come that nobody planned."""
        if self._stopping is None:
            parts = self.gateway.parts
            order = order or StopOrder(
                kind=StopKind.SIGNAL, by=AskedBy.SIGNAL, at=parts.clock.now()
            )
            phases = self.phases(order, hurried=hurried or asyncio.Event())
            running = run_phases(phases, progress=parts.progress)
            self._stopping = asyncio.create_task(running, name="stop")
        await asyncio.shield(self._stopping)

    def phases(self, order: StopOrder, *, hurried: asyncio.Event) -> list[Phase]:
        """The stop of a gateway, in the order in which it is to happen, whatever has been started.

        `hurried`: nothing more is waited for, from the instant in which it is set.
        """
        self._stop = Stop(
            order,
            self.gateway,
            hurried=hurried,
            give_up_start=self._give_up_start,
            stopped=self.stopped,
        )
        return self._stop.phases()

    @property
    def parked(self) -> int:
        """Turns that a stop has left at a step boundary."""
        return self._stop.draining.parked if self._stop else 0

    @property
    def interrupted(self) -> int:
        """Turns that a stop has cut."""
        return self._stop.draining.interrupted if self._stop else 0
