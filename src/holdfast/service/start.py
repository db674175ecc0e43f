"""The start of a process: the parts are opened one after the other, until messages are accepted.

A start can be cancelled anywhere; what it has opened by then is in `StartedParts`, which the stop
closes.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence

import msgspec

from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.ports.store import HomeStore
from holdfast.core.ports.store_commands import PruneStops
from holdfast.core.secrets import Secret
from holdfast.core.text.translation import N_
from holdfast.gateway.app import Gateway
from holdfast.gateway.lifecycle.process_history import MAX_ROWS, ProcessHistory
from holdfast.gateway.live_settings import SettingsSubscriber
from holdfast.gateway.redaction import Redaction
from holdfast.models.pool import ModelPool
from holdfast.models.selection import SelectedModel
from holdfast.runner.runners import Runners
from holdfast.server.api.context import ApiContext
from holdfast.server.http_listener import HttpListener
from holdfast.server.local.control_socket import ControlSocket, LifecycleHandlers
from holdfast.server.startup_banner import startup_banner
from holdfast.server.status.thread import StatusThread
from holdfast.service.fault_injection import Stall
from holdfast.service.intent import Intent, IntentFile, IntentState
from holdfast.service.maintenance import Maintenance
from holdfast.service.reload import Reloader, watch_config_files
from holdfast.service.signals import SignalHandlers
from holdfast.service.supervisors.current import BOOT_VARIABLE, UNIT_VARIABLE, SdNotifier
from holdfast.service.watchdog import Watchdog
from holdfast.service.wiring import (
    GatewayWiring,
    ServerWiring,
    SharedEgress,
    store_and_runner_status,
)
from holdfast.system.lock import HomeLock
from holdfast.system.logs import RecentLog

log = logging.getLogger(__name__)


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this process was launched: the lock of its home, and inherited sockets."""

    lock: HomeLock  # held already, or still to be acquired
    sockets: Sequence[socket.socket] = ()  # listening sockets, owned by this process from now on
    unattended: bool = False  # no terminal reads its output: it logs to its file alone


class ProcessContext(msgspec.Struct, frozen=True, kw_only=True):
    """What exists before the event loop runs and after it has stopped."""

    launch: LaunchOptions
    status_thread: StatusThread
    signals: SignalHandlers
    watchdog: Watchdog
    intent: IntentFile
    previous_intent: Intent | None  # as the process before this one left it
    token: Secret
    redact: Redaction  # one per process: everything stored or shown passes through it
    recent_log: RecentLog
    # Parts outside the gateway that follow its settings.
    settings_subscribers: tuple[SettingsSubscriber, ...] = ()
    spans: SpanExporter | None = None  # None: tracing is off

    @property
    def was_running(self) -> bool:
        """Whether the process before this one was ready and had not finished a stop."""
        states = (IntentState.RUNNING, IntentState.DRAINING)
        return self.previous_intent is not None and self.previous_intent.state in states


class StartedParts(msgspec.Struct):
    """What the start has opened so far, and the stop has to close."""

    store: HomeStore | None = None
    models: ModelPool | None = None
    listener: HttpListener | None = None
    control: ControlSocket | None = None
    gateway: Gateway | None = None
    reloader: Reloader | None = None
    maintenance: Maintenance | None = None
    ready: bool = False


class ProcessStart(msgspec.Struct, frozen=True, kw_only=True):
    """One start. It may be cancelled anywhere: what it had opened by then is in `started`."""

    wiring: GatewayWiring
    server_wiring: ServerWiring
    context: ProcessContext
    started: StartedParts
    history: ProcessHistory
    lifecycle_handlers: LifecycleHandlers
    notifier: SdNotifier
    stall: Stall
    on_built: Callable[[Gateway], None]  # from here on it can fail
    on_listening: Callable[[Sequence[socket.socket]], None]
    held_sockets: Sequence[socket.socket] = ()  # of a process that was killed

    async def run(self) -> None:
        """Returns when the gateway accepts messages and the startup banner was printed."""
        probe = self.wiring.sandbox_probe()
        probing = asyncio.create_task(probe.plan(), name="probe the sandbox")
        store = await self._open_store()
        pool = await self._open_models()
        model = await self.wiring.select_model()
        egress = self.wiring.egress(store)
        runners = self.wiring.runners(store, egress, probe)
        await self._enter_phase(N_("trying the sandbox"))
        await probing
        api_context = await self._open_listeners(
            store, pool, model=model, runners=runners, egress=egress
        )
        gateway = self.started.gateway = api_context.gateway
        self.on_built(gateway)
        await gateway.start()
        await self._become_ready(api_context, store, resumed=gateway.resumed)
        await self._print_banner(runners, model)

    async def _enter_phase(self, phase: str) -> None:
        self.wiring.progress(phase)
        await self.stall.inside(phase)

    async def _open_store(self) -> HomeStore:
        await self._enter_phase(N_("opening the store"))
        store = self.started.store = await self.wiring.store().__aenter__()
        self.server_wiring.gateway_status.use_store(store)
        await self._enter_phase(N_("looking back"))
        await self.history.record_crash(store, ran=self.context.was_running)
        return store

    async def _open_models(self) -> ModelPool:
        await self._enter_phase(N_("choosing a model"))
        pool = self.started.models = await ModelPool().__aenter__()
        return pool

    async def _open_listeners(
        self,
        store: HomeStore,
        pool: ModelPool,
        *,
        model: SelectedModel,
        runners: Runners,
        egress: SharedEgress,
    ) -> ApiContext:
        """Open the HTTP listener and the control socket. Until the gateway has started, clients
        are asked to wait."""
        wiring, server = self.wiring, self.server_wiring
        api = wiring.api(store)
        gateway, reloader = wiring.gateway(
            store, pool, model=model, runners=runners, egress=egress, api=api
        )
        self.started.reloader = reloader
        gateway.live_settings.subscribe(*self.context.settings_subscribers)
        config_handlers = server.config_handlers(gateway, store, reloader)
        api_context = server.api_context(gateway, store, runners, config_handlers=config_handlers)
        server.gateway_status.add_sources(
            gateway.snapshot,
            lambda: store_and_runner_status(store, runners),
            lambda: {"configuration": reloader.status},
        )
        server.gateway_status.track_owned(gateway.open_message_ids)
        await self._enter_phase(N_("opening the listeners"))
        listener = server.listener(
            api_context, api, inherited=[*self.context.launch.sockets, *self.held_sockets]
        )
        self.started.listener = await listener.__aenter__()
        self.on_listening(listener.sockets)
        server.gateway_status.add_sources(lambda: {"address": listener.address})
        self.context.launch.lock.announce(listener.address)
        control = server.control_socket(
            gateway,
            store,
            link=self._login_link,
            lifecycle_handlers=self.lifecycle_handlers,
            backups_changed=self._refresh_backups,
            config_handlers=config_handlers,
        )
        self.started.control = await control.__aenter__()
        return api_context

    async def _become_ready(
        self, api_context: ApiContext, store: HomeStore, *, resumed: int
    ) -> None:
        assert self.started.listener is not None, "opened before the gateway was started"
        await self._enter_phase(N_("telling who waits"))
        await api_context.gateway.lifecycle_notices.send_back_notices(resumed=resumed)
        await store.write(PruneStops(keep=MAX_ROWS))
        await self.started.listener.start_accepting()
        self.context.intent.record_running()
        self.started.ready = True
        self.wiring.progress("running")
        self.notifier.notify("READY=1", f"MAINPID={os.getpid()}", timeout=1.0)
        log.info("Ready at %s.", self.started.listener.address, extra={"action": "ready"})
        backups = self.wiring.backups(api_context.gateway)
        self.server_wiring.report_last_hour_and_backups(api_context, backups)
        self.started.maintenance = Maintenance(
            store, backups=backups, minute_history=api_context.status.minute_history
        )
        self.started.maintenance.start()
        self._send_audit_heads(self.started.maintenance, store)
        self._watch_config_file(self.started.maintenance, api_context.gateway)

    def _send_audit_heads(self, maintenance: Maintenance, store: HomeStore) -> None:
        config = self.wiring.config
        if not (config.settings.audit.syslog or config.settings.audit.webhook):
            return
        from holdfast.server.audit_heads import (  # noqa: PLC0415 - most have no receiver
            AuditHeadSender,
        )

        sender = AuditHeadSender(
            config.settings.audit,
            store,
            secret=config.secret("audit.webhook_secret"),
            gateway=socket.gethostname(),
            clock=self.wiring.runtime.clock,
            new_id=self.wiring.runtime.new_id,
        )
        maintenance.add_task(sender.run(), name="send audit heads")

    def _watch_config_file(self, maintenance: Maintenance, gateway: Gateway) -> None:
        reloader = self.started.reloader
        assert reloader is not None, "made with the gateway"
        watching = watch_config_files(reloader, is_enabled=lambda: gateway.settings.gateway.watch)
        maintenance.add_task(reloader.record_start_config(), name="save the configuration")
        maintenance.add_task(watching, name="watch the configuration file")

    async def _refresh_backups(self) -> None:
        """Before maintenance has started nothing is needed: it starts with a refresh."""
        if self.started.maintenance is not None:
            await self.started.maintenance.refresh_backups()

    async def _print_banner(self, runners: Runners, model: SelectedModel) -> None:
        settings = self.wiring.config.settings
        # A supervisor stores this output where others read it: no place for a login link.
        supervised = bool(self.wiring.config.environ.keys() & {UNIT_VARIABLE, BOOT_VARIABLE})
        print(
            startup_banner(
                home=self.wiring.config.home,
                address=self._address,
                configured_port=settings.gateway.port,
                link="" if supervised else self._login_link(),
                model=model.choice,
                unsandboxed_reason=runners.why_unsandboxed,
                sandbox_remedy=runners.remedy,
            ),
            flush=True,
        )

    @property
    def _address(self) -> str:
        return self.started.listener.address if self.started.listener is not None else ""

    def _login_link(self, token: str = "") -> str:
        """A link that opens on this machine, also where the gateway listens on every address. It
        logs in the owner, or opens the page with the named token."""
        local = self._address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        login = self.server_wiring.login
        return login.create_link(local, token=login.tokens.by_name(token) if token else None)
