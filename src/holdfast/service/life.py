"""The life of a process: it starts, waits for the one order to go, and stops."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from holdfast.config import Config
from holdfast.core.config.kept_configuration import ConfigurationSource
from holdfast.core.config.settings import GatewaySettings, SupervisorChoice
from holdfast.core.errors import RestartRefused
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder
from holdfast.gateway.lifecycle.departure import Departure
from holdfast.gateway.lifecycle.phases import run_phases
from holdfast.gateway.lifecycle.process_history import Lives
from holdfast.gateway.lifecycle.restarting import Restarting
from holdfast.gateway.lifespan import Running
from holdfast.server.auth.login import Login
from holdfast.server.auth.viewers import Viewers
from holdfast.server.local.departing import Doorway
from holdfast.server.local.progress import Progress
from holdfast.server.status.gateway_status import Facts
from holdfast.server.status.heartbeat import Heartbeat
from holdfast.service.crashing import crash_at
from holdfast.service.footing import Begun, Footing
from holdfast.service.garbage import rarely_collected
from holdfast.service.heritage import Heritage
from holdfast.service.stalling import stall_at
from holdfast.service.start import Start
from holdfast.service.stop import Stop
from holdfast.service.supervisors.notify import Feeding, Notifier, feeding_time
from holdfast.service.window import Window
from holdfast.service.wiring import Wiring
from holdfast.system import exits
from holdfast.system.clock import SystemClock
from holdfast.system.ids import Ids
from holdfast.system.paths import Paths

log = logging.getLogger(__name__)

_CLEAN_UP = 25.0  # seconds that all phases but the drain and the parking may take together (C1)
_GRACE = 3.0  # on top; a supervisor gives more than that
_TAIL = 5.0  # seconds from the last phase to the end of the interpreter
_FAILED = "It cannot go on: what was begun is ended in order."

_KINDS = {
    signal.SIGTERM: StopKind.SIGNAL,  # nobody's plan: the next boot starts it again
    signal.SIGINT: StopKind.STOP,
    signal.SIGUSR1: StopKind.RESTART,
    signal.SIGHUP: StopKind.SIGNAL,  # where its terminal is gone; else it is no order to go
}


class Life:
    """Owns this life of the gateway, from its first part to its last; knows nothing of messages.

    Whoever wants it to go gives an order to its one `Departure`; a part that fails does, too.
    """

    def __init__(self, config: Config, *, footing: Footing) -> None:
        self._config = config
        self._footing = footing
        self._clock = SystemClock()
        self._new_id = Ids(clock=self._clock)
        self._begun = Begun()
        self._departure = Departure()
        self._notifier = Notifier(config.environ)
        self._heritage = Heritage(config, notifier=self._notifier)
        self._stall = stall_at(config.stall_at)
        self._lifecycle = Restarting(
            self._departure, check=self._check, quiet=self._quiet, news=self._stir
        )
        self._facts = Facts(clock=self._clock, order=lambda: self._departure.order)
        self._progress = Progress()
        self._failure: BaseException | None = None  # what ended it, where nobody asked
        self._beside: set[asyncio.Task[None]] = set()

    async def live(self) -> int:
        """From the first part to the last; returns the exit code, or raises what ended it."""
        loop = asyncio.get_running_loop()
        every = feeding_time(self._config.environ, pid=os.getpid())
        with (
            rarely_collected() as started,
            Heartbeat(loop, clock=self._clock) as heartbeat,
            Feeding(loop, self._notifier, every=every),
        ):
            self._footing.signals.listen(loop, self._signalled)
            self._footing.status.watch(heartbeat)
            self._footing.status.ask(loop, self._facts.soon)
            self._facts.add(self._own_facts)
            lives = Lives(clock=self._clock, new_id=self._new_id)
            starting = asyncio.create_task(self._begin(lives, started), name="start")
            starting.add_done_callback(self._begun_or_failed)
            order = await self._departure.asked()
            return await self._end(order, lives=lives, starting=starting)

    async def _begin(self, lives: Lives, started: Callable[[], None]) -> None:
        start = Start(
            wiring=self._wiring(),
            window=self._window(),
            footing=self._footing,
            begun=self._begun,
            lives=lives,
            doorway=Doorway(
                self._lifecycle,
                hand_over=self._hand_over,
                progress=self._progress,
                clock=self._clock,
            ),
            notifier=self._notifier,
            stall=self._stall,
            watch=self._watch,
        )
        await start.run()
        if self._begun.listener is not None:
            self._heritage.deposit(self._begun.listener.sockets)
        started()

    def _begun_or_failed(self, starting: asyncio.Task[None]) -> None:
        if not starting.cancelled() and (error := starting.exception()) is not None:
            self._failure = error
            self._give_up()

    def _watch(self, running: Running) -> None:
        async def until_broken() -> None:
            await running.broken.wait()
            self._failure = running.failure
            self._give_up()

        self._aside(until_broken())

    def _give_up(self) -> None:
        """Nobody asked for it, and there is nothing to go on with."""
        order = StopOrder(kind=StopKind.CRASH, by=AskedBy.NOBODY, at=self._clock.now())
        self._lifecycle.stop(order)

    def _signalled(self, which: signal.Signals) -> None:
        """The first asks; one that comes after it hurries."""
        if which is signal.SIGHUP and not self._footing.signals.hung_up:
            self._aside(self._reload())
            return
        order = StopOrder(kind=_KINDS[which], by=AskedBy.SIGNAL, at=self._clock.now())
        if order.kind is StopKind.RESTART:
            self._aside(self._restart(order))
        else:
            self._lifecycle.stop(order)

    async def _reload(self) -> None:
        reloader = self._begun.reloader
        if reloader is None or not self._begun.ready:
            return  # what it starts with was read a moment ago, and is looked at again when ready
        if self._departure.order is not None:
            return  # who comes next reads the file
        await reloader.take_over(by="SIGHUP", source=ConfigurationSource.RELOAD)

    async def _restart(self, order: StopOrder) -> None:
        try:
            await self._lifecycle.restart(order)
        except RestartRefused as refused:
            log.warning("Not restarted: %s", refused, extra={"action": "restart_refused"})

    async def _hand_over(self, to: Path, order: StopOrder) -> str:
        """Give a waiting successor what it needs and go, or say who keeps this gateway."""
        if self._heritage.supervisor is not SupervisorChoice.NONE:
            return self._heritage.supervisor
        listener = self._begun.listener
        if self._departure.order is not None or listener is None:
            raise RestartRefused("the gateway is on its way out already.")
        await self._heritage.give(to, listener.sockets, address=listener.address)
        if self._departure.order is None:  # one that was given meanwhile is not to be hurried
            self._lifecycle.stop(order)
        return ""

    async def _check(self, soon: bool) -> None:
        listener = self._begun.listener
        if soon and listener is not None:
            await self._heritage.prepare(listener.sockets)
        else:
            await self._heritage.check()

    async def _quiet(self) -> None:
        if self._begun.running is not None:
            await self._begun.running.gateway.lanes.quiet()

    def _aside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def _end(self, order: StopOrder, *, lives: Lives, starting: asyncio.Task[None]) -> int:
        loop, windows = asyncio.get_running_loop(), self._windows
        allowed = windows.restart_drain_timeout + windows.park_timeout + _CLEAN_UP + _GRACE
        self._footing.watchdog.arm(loop, self._stall.patience or allowed)
        why = f"Asked to go: {order.kind}, by {order.by}." if self._failure is None else _FAILED
        log.info(why, extra={"action": "stopping"})
        self._notifier.tell("STOPPING=1")
        stop = Stop(
            order=order,
            hurried=self._departure.hurried,
            footing=self._footing,
            begun=self._begun,
            lives=lives,
            heritage=self._heritage,
            starting=starting,
            failed=self._failure is not None,
        )
        await run_phases(
            stop.phases(), progress=self._enter, inside=self._stall.inside, took=stop.took
        )
        for task in self._beside:
            task.cancel()
        code = stop.code if self._failure is None else exits.FAILED
        # What is left is the interpreter's; a thread that hangs must not hold it up for ever.
        self._footing.watchdog.arm(loop, _TAIL, code=code)
        if self._failure is not None:
            raise self._failure
        return code

    @property
    def _windows(self) -> GatewaySettings:
        running = self._begun.running
        settings = self._config.settings if running is None else running.gateway.house.settings
        return settings.gateway

    def _enter(self, phase: str) -> None:
        self._facts.enter(phase)
        self._footing.status.publish(self._facts.now())
        self._progress.publish(phase)
        order = self._departure.order
        self._notifier.status(phase if order is None else f"leaving ({order.kind}): {phase}")
        self._stir()
        self._stall.passed(phase)

    def _stir(self) -> None:
        """Whoever looks at the page sees how far it has come."""
        if self._begun.running is not None:
            self._begun.running.gateway.house.feeds.stirred()

    def _own_facts(self) -> dict[str, Any]:
        return {
            "pending": self._lifecycle.waiting,
            "supervisor": self._heritage.supervisor.value,
        }

    def _login(self) -> Login:
        viewers = Viewers.read(Paths(self._config.home).viewers, clock=self._clock)
        return Login(self._footing.token, viewers=viewers, clock=self._clock)

    def _wiring(self) -> Wiring:
        return Wiring(
            config=self._config,
            token=self._footing.token,
            clock=self._clock,
            new_id=self._new_id,
            crash=crash_at(self._config.crash_at),
            lifecycle=self._lifecycle,
            progress=self._enter,
            redact=self._footing.redact,
            spans=self._footing.spans,
        )

    def _window(self) -> Window:
        return Window(
            config=self._config,
            clock=self._clock,
            new_id=self._new_id,
            facts=self._facts,
            status=self._footing.status,
            lifecycle=self._lifecycle,
            login=self._login(),
            log=self._footing.log,
        )
