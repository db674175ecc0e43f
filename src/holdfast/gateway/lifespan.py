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
    """A bug in Holdfast: the gateway has stopped phase by phase rather than run without a part."""

    def __init__(self, error: Exception) -> None:
        super().__init__(
            f"an internal error stopped the gateway ({type(error).__name__}: {error}). Nothing "
            "that was accepted is lost: start it again. The log has the details; please report it"
        )


class RunningGateway:
    """Owns the start and the stop of a gateway. Inside `async with` it has recovered and accepts
    messages; after it, it has stopped phase by phase, and everything pending is in the store."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._starting: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._stop: GatewayStop | None = None  # running or done
        self.stopped = asyncio.Event()  # set when the last of its phases has run
        self.resumed = 0  # turns of earlier processes that this one continues
        self._failure_watcher: asyncio.Task[None] | None = None  # while inside `async with`
        self._cancelled_task: asyncio.Task[Any] | None = None  # cancelled by the watcher

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "this is awaited by a task"
        self._failure_watcher = asyncio.create_task(
            self._cancel_on_failure(task), name="gateway failure watcher"
        )
        try:
            await self.start()
        except BaseException:
            # `__aexit__` is not called then, but resumed turns run and platforms are connected.
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._failure_watcher is not None:
            self._failure_watcher.cancel()
        await self.stop()
        if self._cancelled_task is not None:
            self._cancelled_task.uncancel()  # it gets `GatewayCrashed` instead
        if (failure := self.gateway.task_group.failure) is not None:
            raise GatewayCrashed(failure) from failure

    async def _cancel_on_failure(self, task: asyncio.Task[Any]) -> None:
        """Cancel the task inside `async with`, as a task group does."""
        await self.failed.wait()
        task.cancel()
        self._cancelled_task = task

    @property
    def failed(self) -> asyncio.Event:
        """Set when a task of the gateway has failed: the gateway must be stopped."""
        return self.gateway.task_group.failed

    @property
    def failure(self) -> HoldfastError | None:
        """The error to report once it has stopped."""
        failure = self.gateway.task_group.failure
        return None if failure is None else GatewayCrashed(failure)

    async def start(self) -> None:
        """Returns when it has recovered and accepts messages. The caller reports that it runs, once
        it has opened the rest. A stop may cancel this anywhere: its phases end what was started
        and skip what was not."""
        self._starting = asyncio.create_task(self._start(), name="start")
        await self._starting

    async def _cancel_start(self) -> None:
        """When this returns, nothing more is started."""
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait({self._starting})

    async def _start(self) -> None:
        gateway, services = self.gateway, self.gateway.services
        dependencies = gateway.dependencies
        await gateway.task_group.open()
        for name, work in (
            ("subagent supervisor", gateway.subagent_supervisor.run()),
            ("job executor", gateway.job_executor.run()),
        ):
            gateway.task_group.run_until_closed(work, name=name)
        recovery = Recovery(
            services,
            gateway.lanes,
            outbox=gateway.outbox,
            runners=dependencies.runners,
            admit=gateway.router.route_recovered,
            suspend_recent=gateway.sessions.suspend_recently_active,
        )
        await services.memory.start()
        dependencies.progress("recovering")
        await gateway.home_channels.load()
        await services.quiet_chats.load(dependencies.store)
        await gateway.paired_users.load()
        self.resumed = await recovery.run()
        await gateway.subagent_supervisor.follow_recovered()
        await gateway.job_executor.follow_recovered()
        gateway.intake.open()
        dependencies.progress("connecting")
        await gateway.accounts.open()
        gateway.task_group.run_until_closed(gateway.expiry.run(), name="expiry")
        gateway.task_group.run_until_closed(gateway.scheduler.run(), name="scheduler")

    async def stop(
        self, order: StopOrder | None = None, *, urgent: asyncio.Event | None = None
    ) -> None:
        """Run the phases once: a second call waits for the same stop. Without an order it stops as
        after an unplanned signal."""
        if self._stopping is None:
            dependencies = self.gateway.dependencies
            order = order or StopOrder(
                kind=StopKind.SIGNAL, by=StopRequester.SIGNAL, at=dependencies.clock.now()
            )
            phases = self.phases(order, urgent=urgent or asyncio.Event())
            running = run_phases(phases, progress=dependencies.progress)
            self._stopping = asyncio.create_task(running, name="stop")
        await asyncio.shield(self._stopping)

    def phases(self, order: StopOrder, *, urgent: asyncio.Event) -> list[Phase]:
        """The phases of a stop in order, whatever has been started.

        `urgent`: from the instant in which it is set, the stop waits for nothing.
        """
        self._stop = GatewayStop(
            order,
            self.gateway,
            urgent=urgent,
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
        """Turns that a stop has interrupted."""
        return self._stop.drainer.interrupted if self._stop else 0
