"""Runs one gateway process: configuration in, exit code out.

`run` sets up what exists outside the event loop (signals, lock, logs, status thread, watchdog).
`GatewayProcess.run` then starts the gateway, waits for the one stop request, and stops it.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.agent.memory.providers import MemoryProviderUnavailable
from holdfast.config import Config
from holdfast.core.config.settings import GatewaySettings, Settings, SupervisorChoice
from holdfast.core.config.versions import ConfigSource
from holdfast.core.errors import HoldfastError, RestartRefused
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.ports.runtime import Runtime
from holdfast.core.text.translatable import Translatable
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.app import Gateway, GatewayCrashed
from holdfast.gateway.lifecycle.phases import run_phases
from holdfast.gateway.lifecycle.process_history import ProcessHistory
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.gateway.redaction import Redaction
from holdfast.models.target import InvalidTarget
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.tokens import ApiTokens
from holdfast.server.local.control_socket import LifecycleHandlers, LifecycleProgress
from holdfast.server.status.gateway_status import GatewayStatus
from holdfast.server.status.thread import Heartbeat, StatusThread
from holdfast.service.fault_injection import parse_crash_point, parse_stall
from holdfast.service.handover import Handover
from holdfast.service.intent import IntentFile
from holdfast.service.signals import SignalHandlers
from holdfast.service.start import LaunchOptions, ProcessContext, ProcessStart, StartedParts
from holdfast.service.stop import ProcessStop
from holdfast.service.supervisors.current import (
    UNIT_VARIABLE,
    SdNotifier,
    WatchdogKeepalive,
    keepalive_interval,
)
from holdfast.service.watchdog import Watchdog
from holdfast.service.wiring import GatewayWiring, ServerWiring
from holdfast.system import exit_codes
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.lock import HomeInUse
from holdfast.system.logs import RecentLog, logging_to
from holdfast.system.paths import Paths
from holdfast.system.runtime import loop_factory, protect_memory, raise_open_file_limit, tuned_gc
from holdfast.system.tokens import api_token, cookie_key

if TYPE_CHECKING:
    from holdfast.service.supervisors.installed_units import UnitDriftCache

log = logging.getLogger(__name__)


# For all stop phases together, without the drain and the parking (C1).
_GRACE_SECONDS = 3.0  # on top; a supervisor's own stop timeout is longer
_EXIT_SECONDS = 5.0  # from the last phase to the end of the interpreter
_FAILURE_TEXT = "A part of the gateway failed: stopping in order."

_STOP_KINDS = {
    signal.SIGTERM: StopKind.SIGNAL,  # unplanned: the next boot starts the gateway again
    signal.SIGINT: StopKind.STOP,
    signal.SIGUSR1: StopKind.RESTART,
    signal.SIGHUP: StopKind.SIGNAL,  # only where its terminal has closed; otherwise it reloads
}


class GatewayProcess:
    """Owns one run of the gateway, from the first part opened to the last one closed.

    Every stop goes through its one `StopRequest`: requests, signals, and parts that fail.
    """

    def __init__(self, config: Config, *, context: ProcessContext) -> None:
        self._config = config
        self._context = context
        self._clock = SystemClock()
        self._new_id = IdGenerator(clock=self._clock)
        self._tokens = ApiTokens.load(Paths(config.home).tokens, clock=self._clock)
        self._started = StartedParts()
        self._stop_request = StopRequest()
        self._notifier = SdNotifier(config.environ)
        self._handover = Handover(config, notifier=self._notifier)
        self._stall = parse_stall(config.stall_at)
        self._lifecycle = RestartController(
            self._stop_request,
            check=self._check_successor,
            wait_until_idle=self._wait_until_idle,
            on_change=self._notify_changed,
        )
        self._gateway_status = GatewayStatus(
            clock=self._clock, stop_order=lambda: self._stop_request.order
        )
        self._progress = LifecycleProgress()
        self._failure: BaseException | None = None  # what ended it, if it was not asked to stop
        self._background_tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> int:
        """Start, wait for the stop order, stop. Returns the exit code, or raises what ended it."""
        loop = asyncio.get_running_loop()
        interval = keepalive_interval(self._config.environ, pid=os.getpid())
        with (
            tuned_gc() as started,
            Heartbeat(loop, clock=self._clock) as heartbeat,
            WatchdogKeepalive(loop, self._notifier, interval=interval),
        ):
            self._context.signals.listen(loop, self._on_signal)
            self._context.status_thread.watch_heartbeat(heartbeat)
            self._context.status_thread.attach_loop(loop, self._gateway_status.quick_snapshot)
            self._gateway_status.add_sources(self._process_status)
            history = ProcessHistory(clock=self._clock, new_id=self._new_id)
            start_task = asyncio.create_task(self._start(history, started), name="start")
            start_task.add_done_callback(self._on_start_done)
            order = await self._stop_request.wait()
            return await self._stop(order, history=history, start_task=start_task)

    async def _start(self, history: ProcessHistory, on_started: Callable[[], None]) -> None:
        start = ProcessStart(
            wiring=self._make_gateway_wiring(),
            server_wiring=self._make_server_wiring(),
            context=self._context,
            started=self._started,
            history=history,
            lifecycle_handlers=LifecycleHandlers(
                self._lifecycle,
                start_handover=self._hand_over,
                progress=self._progress,
                clock=self._clock,
            ),
            notifier=self._notifier,
            stall=self._stall,
            on_built=self._watch_for_failure,
            on_listening=self._handover.hold_sockets,
            held_sockets=self._handover.take_held_sockets(),
        )
        await start.run()
        if self._started.listener is not None:
            self._handover.store_sockets(self._started.listener.sockets)
        on_started()

    def _on_start_done(self, start_task: asyncio.Task[None]) -> None:
        if not start_task.cancelled() and (error := start_task.exception()) is not None:
            self._failure = error
            self._stop_after_failure()

    def _watch_for_failure(self, gateway: Gateway) -> None:
        async def stop_when_failed() -> None:
            await gateway.failed.wait()
            self._failure = gateway.failure
            self._stop_after_failure()

        self._run_in_background(stop_when_failed())

    def _stop_after_failure(self) -> None:
        order = StopOrder(kind=StopKind.CRASH, by=StopRequester.NONE, at=self._clock.now())
        self._lifecycle.stop(order)

    def _on_signal(self, which: signal.Signals) -> None:
        """The first stop signal stops the gateway; a second one shortens the stop."""
        if which is signal.SIGHUP and not self._context.signals.hung_up:
            self._run_in_background(self._reload())
            return
        order = StopOrder(kind=_STOP_KINDS[which], by=StopRequester.SIGNAL, at=self._clock.now())
        if order.kind is StopKind.RESTART:
            self._run_in_background(self._restart(order))
        else:
            self._lifecycle.stop(order)

    async def _reload(self) -> None:
        reloader = self._started.reloader
        if reloader is None or not self._started.ready:
            return  # the file was just read, and is compared again when the gateway is ready
        if self._stop_request.order is not None:
            return  # the successor reads the file
        await reloader.reload_and_log(by="SIGHUP", source=ConfigSource.RELOAD)

    async def _restart(self, order: StopOrder) -> None:
        try:
            await self._lifecycle.restart(order)
        except RestartRefused as refused:
            log.warning(
                "The gateway was not restarted: %s", refused, extra={"action": "restart_refused"}
            )

    async def _hand_over(self, to: Path, order: StopOrder) -> str:
        """Send the sockets to a waiting successor and stop; or return the supervisor's name, which
        has to do the restart instead."""
        if self._handover.supervisor is not SupervisorChoice.NONE:
            return self._handover.supervisor
        listener = self._started.listener
        if self._stop_request.order is not None or listener is None:
            raise RestartRefused("The gateway is already stopping.")
        await self._handover.send_sockets(to, listener.sockets, address=listener.address)
        if self._stop_request.order is None:  # a second order would shorten the stop under way
            self._lifecycle.stop(order)
        return ""

    async def _check_successor(self, soon: bool) -> None:
        listener = self._started.listener
        if soon and listener is not None:
            await self._handover.prepare(listener.sockets)
        else:
            await self._handover.check_successor()

    async def _wait_until_idle(self) -> None:
        if self._started.gateway is not None:
            await self._started.gateway.lanes.wait_until_idle()

    def _run_in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _stop(
        self, order: StopOrder, *, history: ProcessHistory, start_task: asyncio.Task[None]
    ) -> int:
        loop, settings = asyncio.get_running_loop(), self._gateway_settings
        self._context.watchdog.arm(
            loop, self._stall.watchdog_timeout or settings.longest_stop + _GRACE_SECONDS
        )
        if self._failure is None:
            reason = f"Stopping: {order.kind}, requested by {order.by}."
        else:
            reason = _FAILURE_TEXT
        log.info(reason, extra={"action": "stopping"})
        self._notifier.notify("STOPPING=1")
        stop = ProcessStop(
            order=order,
            urgent=self._stop_request.urgent,
            context=self._context,
            started=self._started,
            history=history,
            handover=self._handover,
            start_task=start_task,
            failed=self._failure is not None,
        )
        await run_phases(
            stop.phases(),
            progress=self._enter_phase,
            inside=self._stall.inside,
            took=stop.phase_seconds,
        )
        for task in self._background_tasks:
            task.cancel()
        code = stop.exit_code if self._failure is None else exit_codes.FAILED
        # Only the exit of the interpreter is left; a hanging thread must not delay it forever.
        self._context.watchdog.arm(loop, _EXIT_SECONDS, code=code)
        if self._failure is not None:
            raise self._failure
        return code

    @property
    def _gateway_settings(self) -> GatewaySettings:
        gateway = self._started.gateway
        settings = self._config.settings if gateway is None else gateway.settings
        return settings.gateway

    def _enter_phase(self, phase: str) -> None:
        self._gateway_status.enter_phase(phase)
        self._context.status_thread.publish(self._gateway_status.snapshot())
        self._progress.publish(phase)
        order = self._stop_request.order
        self._notifier.status(phase if order is None else f"stopping ({order.kind}): {phase}")
        self._notify_changed()
        self._stall.enter(phase)

    def _notify_changed(self) -> None:
        """Live views of the page show the new phase."""
        if self._started.gateway is not None:
            self._started.gateway.feeds.gateway_changed()

    def _process_status(self) -> dict[str, Any]:
        return {
            "pending_restart": self._lifecycle.pending_restart,
            "supervisor": self._handover.supervisor.value,
        }

    def _make_login(self) -> BrowserLogin:
        paths = Paths(self._config.home)
        return BrowserLogin(
            self._context.token,
            tokens=self._tokens,
            key=cookie_key(paths),
            ended=paths.ended_logins,
            clock=self._clock,
        )

    def _make_gateway_wiring(self) -> GatewayWiring:
        return GatewayWiring(
            config=self._config,
            token=self._context.token,
            api_tokens=self._tokens,
            runtime=Runtime(self._clock, self._new_id, parse_crash_point(self._config.crash_at)),
            lifecycle=self._lifecycle,
            progress=self._enter_phase,
            redact=self._context.redact,
            spans=self._context.spans,
        )

    def _make_server_wiring(self) -> ServerWiring:
        return ServerWiring(
            config=self._config,
            clock=self._clock,
            gateway_status=self._gateway_status,
            status_thread=self._context.status_thread,
            lifecycle=self._lifecycle,
            login=self._make_login(),
            recent_log=self._context.recent_log,
        )


def run(config: Config, launch: LaunchOptions) -> int:
    """Run a gateway until it is stopped. Returns the exit code."""
    try:
        with SignalHandlers() as signals, launch.lock:
            return _run_locked(config, launch, signals)
    except HomeInUse as error:
        print(error, file=sys.stderr)
        return exit_codes.HOME_IN_USE
    except (InvalidTarget, MemoryProviderUnavailable) as error:
        print(error, file=sys.stderr)
        return exit_codes.CONFIG_EXIT
    except GatewayCrashed as error:
        print(f"holdfast stopped: {error}", file=sys.stderr)
        return exit_codes.FAILED
    except HoldfastError as error:
        print(f"holdfast could not start: {error}", file=sys.stderr)
        return exit_codes.FAILED


def _run_locked(config: Config, launch: LaunchOptions, signals: SignalHandlers) -> int:
    protect_memory()
    paths, clock = Paths(config.home), SystemClock()
    token = api_token(paths, configured=config.secret("platforms.api.token"))
    redact = Redaction([*config.secrets.values(), token])
    raise_open_file_limit()
    intent = IntentFile(paths.intent, now=clock.now)
    previous_intent = intent.read()
    intent.record_starting()
    recent_log, drift = RecentLog(redact), _UnitDrift(config)
    with (
        logging_to(
            paths.log_file,
            config.settings.log,
            redact=redact,
            unattended=launch.unattended,
            recent=recent_log,
        ) as flush,
        _log_warnings(config, drift),
        StatusThread(paths, clock=clock, unit_drift=drift) as status_thread,
        Watchdog(flush=flush) as watchdog,
        _open_tracing(config) as spans,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        context = ProcessContext(
            launch=launch,
            status_thread=status_thread,
            signals=signals,
            watchdog=watchdog,
            intent=intent,
            previous_intent=previous_intent,
            token=token,
            redact=redact,
            recent_log=recent_log,
            settings_subscribers=(drift.apply_settings,),
            spans=spans,
        )
        return runner.run(GatewayProcess(config, context=context).run())


class _UnitDrift:
    """Where the installed unit differs from the current settings. May be called from any thread;
    the comparison is imported and built by the first call."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = config.settings.gateway
        self._cache: UnitDriftCache | None = None

    def apply_settings(self, settings: Settings) -> None:
        self._settings, self._cache = settings.gateway, None

    def __call__(self) -> Sequence[Translatable]:
        from holdfast.service.supervisors.installed_units import (  # noqa: PLC0415 - not for a start
            UnitDriftCache,
            supervisor_backends,
        )

        cache = self._cache
        if cache is None:
            backends = supervisor_backends(self._config.environ, user_id=os.getuid())
            cache = UnitDriftCache(self._config.home, self._settings, backends=backends)
            self._cache = cache
        return cache.drift()


@contextmanager
def _open_tracing(config: Config) -> Iterator[SpanExporter | None]:
    """The exporter of spans, if tracing is configured and its packages are installed."""
    settings = config.settings.otel
    if not settings.endpoint:
        yield None
        return
    try:
        from holdfast.server.otel import OtlpSpanSender, otlp_exporter  # noqa: PLC0415 - heavy, and an extra
    except ImportError as error:
        log.error(
            "Tracing is off: %s is not installed. Install it with: pip install 'holdfast[otel]'.",
            error.name,
            extra={"action": "otel_missing"},
        )
        yield None
        return
    exporter = otlp_exporter(settings, secret=config.secret("otel.header_secret"))
    sender = OtlpSpanSender(exporter, service=settings.service)
    try:
        yield sender
    finally:
        sender.close()


@contextmanager
def _log_warnings(config: Config, drift: _UnitDrift) -> Iterator[None]:
    for warning in config.warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})
    # Only under a unit: other starts need not wait for the comparison, and `status` reports it too.
    if UNIT_VARIABLE in config.environ:
        for difference in drift():
            log.warning("%s", difference, extra={"action": "unit_drift"})
    yield
