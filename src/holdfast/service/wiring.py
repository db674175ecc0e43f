"""Builds the parts of a gateway and its server from the configuration; opens none of them."""

import os
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec
from aiohttp.web import RouteDef

from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.provider_guard import ProviderLimits
from holdfast.agent.memory.providers import load_providers
from holdfast.config import Config, shared_state_dir
from holdfast.core.config.settings import (
    MemorySettings,
    PlatformSettings,
    Settings,
    SupervisorChoice,
    WebSettings,
)
from holdfast.core.ids import SessionId
from holdfast.core.messages.source import AttachmentUnavailable
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.people.audit import AGENT_ACTOR, DONE, REFUSED, AuditEntry, AuditKind
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock, Lifecycle, Runtime
from holdfast.core.ports.store import HomeStore
from holdfast.core.ports.store_commands import EndRunner, RecordAudit, SaveRunner
from holdfast.core.secrets import Secret
from holdfast.gateway.access import Action, GatewayResource
from holdfast.gateway.accounts.connection import ConnectionPolicy
from holdfast.gateway.agents.cache import start_pacer
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.app import Gateway
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer
from holdfast.models.pool import ModelPool
from holdfast.models.selection import SelectedModel
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.web.platform import WebPlatform
from holdfast.runner.bubblewrap import WORKSPACE, SandboxProbe
from holdfast.runner.launch import SystemdScopes, systemd_run_prefix
from holdfast.runner.runners import Runners
from holdfast.runner.workspace import CannotSaveFile, NoSuchFile, Workspace
from holdfast.server.api import mount
from holdfast.server.api.context import ApiContext, ApiStatus, SharedReads, StreamKeepalive
from holdfast.server.auth.login import BrowserLogin, LoginRoutes
from holdfast.server.auth.tokens import ApiTokens, TokenService
from holdfast.server.http_listener import HttpListener
from holdfast.server.local.control_handlers import (
    AccountHandlers,
    BackupCopyHandlers,
    ConfigHandlers,
    PairingHandlers,
    TokenHandlers,
)
from holdfast.server.local.control_socket import ControlSocket, LifecycleHandlers
from holdfast.server.metrics import render_metrics
from holdfast.server.page import static_files
from holdfast.server.status.gateway_status import GatewayStatus
from holdfast.server.status.minute_stats import HOUR, MinuteHistory, hour_stats
from holdfast.server.status.thread import StatusThread, resident_memory
from holdfast.server.webhooks import WebhookRoutes
from holdfast.service.agent_config import (
    AgentConfigBuilder,
    ToolsetBuilder,
    select_configured_model,
)
from holdfast.service.maintenance import BackupCommand, BackupScheduler
from holdfast.service.platforms import credential_identities, open_platforms
from holdfast.service.reload import Reloader
from holdfast.service.supervisors.current import (
    current_unit,
    detect_supervisor,
    parent_name,
    read_own_cgroup,
)
from holdfast.store.implementations import store_implementation
from holdfast.system.credential_locks import FileCredentialLocks
from holdfast.system.linux import TimerfdTimer
from holdfast.system.logs import RecentLog, apply_log_level
from holdfast.system.pacing import IterationPacer
from holdfast.system.paths import Paths
from holdfast.system.uploads import UploadedFiles
from holdfast.tools.shell import LazyShellJudge

if TYPE_CHECKING:
    from holdfast.server.config_editor import ConfigEditor
    from holdfast.system.egress import EgressPolicy, HostContact


class WorkspaceFiles:
    """Files that the gateway stores for a message or reads to send. Every method blocks: call them
    in a thread."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def put(self, session_id: SessionId, name: str, data: bytes) -> str:
        try:
            return Workspace(self._home, session_id).save_upload(name, data)
        except CannotSaveFile as error:
            raise AttachmentUnavailable("{error}", error=error) from None

    def read(self, session_id: SessionId | None, path: str, max_bytes: int) -> bytes:
        """`path` as commands of the session would write it, or relative to the workspace; without a
        session, the path of an uploaded file."""
        with self._open(session_id, path) as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            raise AttachmentUnavailable(
                "{path!r} is larger than {limit} MB", path=path, limit=max_bytes // 2**20
            )
        return data

    def drop(self, path: str) -> None:
        UploadedFiles(self._home).remove(path)

    def _open(self, session_id: SessionId | None, path: str) -> BinaryIO:
        if session_id is None:
            return UploadedFiles(self._home).open(path)
        try:
            found = Workspace(self._home, session_id).list_or_open(
                path.removeprefix(f"{WORKSPACE}/")
            )
        except NoSuchFile as error:
            raise AttachmentUnavailable("{error}", error=error) from None
        if not isinstance(found, int):
            raise AttachmentUnavailable("{path!r} is a folder; only files can be sent", path=path)
        return os.fdopen(found, "rb")


def runner_scopes(config: Config, *, clock: Clock) -> SystemdScopes | None:
    """Scopes that keep runners out of the gateway's unit (E1). None: systemd did not start us."""
    supervisor = detect_supervisor(
        config.settings.gateway.supervisor, config.environ, pid=os.getpid(), parent=parent_name()
    )
    if supervisor is not SupervisorChoice.SYSTEMD:
        return None
    unit = current_unit(config.environ, cgroup=read_own_cgroup())
    prefix = systemd_run_prefix(
        config.environ, user_unit=unit is not None and unit.user, uid=os.getuid()
    )
    return SystemdScopes(config.home, prefix, clock=clock)


class SharedEgress:
    """Owns the egress policy of the gateway, which is made when a command, a browser or `fetch`
    first needs it. Every host that a session contacts has an audit row."""

    def __init__(self, store: HomeStore, *, web: WebSettings, clock: Clock) -> None:
        self._store, self._web, self._clock = store, web, clock
        self._policy: EgressPolicy | None = None

    def apply_settings(self, settings: Settings) -> None:
        self._web = settings.web

    def policy(self) -> "EgressPolicy":
        if self._policy is None:
            from holdfast.system.egress import EgressPolicy  # noqa: PLC0415 - not for a start

            self._policy = EgressPolicy(web=lambda: self._web, record=self._record)
        return self._policy

    async def _record(self, contact: "HostContact") -> None:
        entry = AuditEntry(
            kind=AuditKind.NETWORK_CONTACT,
            actor=AGENT_ACTOR,
            at=self._clock.now(),
            session_id=contact.session_id,
            subject=contact.host,
            outcome=REFUSED if contact.refused else DONE,
            facts={"port": contact.port} | ({"why": contact.refused} if contact.refused else {}),
        )
        await self._store.write(RecordAudit(entry=entry))


class GatewayWiring(msgspec.Struct, frozen=True, kw_only=True):
    """Builds the parts of the gateway. The process opens and closes them."""

    config: Config
    token: Secret
    api_tokens: ApiTokens
    runtime: Runtime
    lifecycle: Lifecycle
    progress: Callable[[str], None]
    redact: Redaction
    spans: SpanExporter | None = None
    # Shared by the gateway, whose turns make way for commands, and the API, which sees them first.
    turn_starts: IterationPacer = msgspec.field(default_factory=start_pacer)

    def store(self) -> HomeStore:
        open_store = store_implementation(self.config.store)
        return open_store(Paths(self.config.home).db, crash=self.runtime.crash, redact=self.redact)

    async def select_model(self) -> SelectedModel:
        """The configured model; selected here if the settings leave it open."""
        return await select_configured_model(self.config)

    def egress(self, store: HomeStore) -> SharedEgress:
        return SharedEgress(store, web=self.config.settings.web, clock=self.runtime.clock)

    def sandbox_probe(self) -> SandboxProbe:
        return SandboxProbe(self.config.settings.runner, runs=self.config.home / "runs")

    def runners(
        self, store: HomeStore, egress: SharedEgress, probe: SandboxProbe | None = None
    ) -> Runners:
        return Runners(
            self.config.home,
            self.config.settings.runner,
            clock=self.runtime.clock,
            egress=egress.policy,
            on_started=lambda runner: store.write(SaveRunner(runner=runner)),
            on_ended=lambda session_id: store.write(EndRunner(session_id=session_id)),
            scopes=runner_scopes(self.config, clock=self.runtime.clock),
            probe=probe,
        )

    def api(self, store: HomeStore) -> ApiPlatform:
        return ApiPlatform(
            self.token,
            clients=self.api_tokens,
            reads=store,
            new_id=self.runtime.new_id,
            turn_starts=self.turn_starts,
        )

    def gateway(
        self,
        store: HomeStore,
        pool: ModelPool,
        *,
        model: SelectedModel,
        runners: Runners,
        egress: SharedEgress,
        api: ApiPlatform,
    ) -> tuple[Gateway, Reloader]:
        """The gateway, and the reloader that applies configuration changes to it."""
        config = self.config
        notes = self._notes(store)
        plugins = open_platforms(config, clock=self.runtime.clock, new_id=self.runtime.new_id)
        platforms: list[Platform] = [api, WebPlatform(), *plugins]
        toolsets = ToolsetBuilder(
            config.settings.browser,
            home=config.home,
            store=store,
            notes=notes,
            clock=self.runtime.clock,
            egress=egress.policy,
            runs_commands=not runners.remedy,
        )
        credential_locks = self._credential_locks()
        agent_configs = AgentConfigBuilder(
            pool, toolsets, token=self.token, model=model, model_settings=config.settings.model
        )
        agent_config = agent_configs.build(
            config, settings=config.settings, model=model, platforms=platforms
        )
        settings = agent_config.settings
        gateway = Gateway(
            agent_config,
            store=store,
            platforms=platforms,
            runtime=self.runtime,
            redact=self.redact,
            memory=self._memory(store, notes, settings.memory),
            runners=runners,
            judge=LazyShellJudge(
                workspaces=(WORKSPACE, str(config.home / "workspaces")),
                gateway_home=str(config.home),
            ),
            turn_starts=self.turn_starts,
            browsers=toolsets.browsers,
            files=WorkspaceFiles(config.home),
            api_clients=self.api_tokens,
            connection_policy=ConnectionPolicy(credential_locks=credential_locks),
            tracer=self._tracer(agent_config),
            lifecycle=self.lifecycle,
            timer=TimerfdTimer() if sys.platform == "linux" else None,
            progress=self.progress,
        )
        gateway.live_settings.subscribe(egress.apply_settings)
        return gateway, Reloader(
            config,
            gateway=gateway,
            agent_configs=agent_configs,
            versions=store,
            credential_locks=credential_locks,
            clock=self.runtime.clock,
            new_id=self.runtime.new_id,
        )

    def backups(self, gateway: Gateway) -> BackupScheduler:
        settings, home = self.config.settings.backup, self.config.home
        folder = Paths(home).backups(settings.dir)
        command = BackupCommand(
            home, folder=folder, keep=settings.keep, environ=self.config.environ
        )
        return BackupScheduler(
            settings,
            folder=folder,
            maker=command,
            wait_until_idle=gateway.lanes.wait_until_idle,
            clock=self.runtime.clock,
        )

    def _credential_locks(self) -> FileCredentialLocks:
        folder = shared_state_dir(self.config.environ) / "accounts"
        return FileCredentialLocks(
            folder, home=self.config.home, identities=credential_identities(self.config)
        )

    def _memory(self, store: HomeStore, notes: Notes, settings: MemorySettings) -> MemoryManager:
        return MemoryManager(
            load_providers(settings.providers, notes=notes, home=self.config.home),
            notes=notes,
            store=store,
            clock=self.runtime.clock,
            redact=self.redact,
            limits=ProviderLimits(prefetch=settings.prefetch_timeout),
        )

    def _tracer(self, agent_config: AgentConfig) -> MessageTracer | None:
        if self.spans is None:
            return None
        return MessageTracer(
            self.spans,
            key=f"{self.config.home}:{self.token.reveal()}",
            ratio=agent_config.settings.otel.sample,
            model=agent_config.model,
            clock=self.runtime.clock,
            new_id=self.runtime.new_id,
            redact=self.redact,
        )

    def _notes(self, store: HomeStore) -> Notes:
        max_chars = self.config.settings.memory.max_chars
        return Notes(store, clock=self.runtime.clock, redact=self.redact, max_chars=max_chars)


class ServerWiring(msgspec.Struct, frozen=True, kw_only=True):
    """Builds the listeners and what they serve. The process opens and closes them."""

    config: Config
    clock: Clock
    gateway_status: GatewayStatus
    status_thread: StatusThread
    lifecycle: Lifecycle
    login: BrowserLogin
    recent_log: RecentLog

    def config_handlers(
        self, gateway: Gateway, store: HomeStore, reloader: Reloader
    ) -> ConfigHandlers:
        def make() -> "ConfigEditor":
            from holdfast.server.config_editor import ConfigEditor  # noqa: PLC0415 - not for a start

            return ConfigEditor(reloader, history=store, settings=lambda: gateway.settings)

        return ConfigHandlers(make, ready=lambda: self.gateway_status.running)

    def api_context(
        self,
        gateway: Gateway,
        store: HomeStore,
        runners: Runners,
        *,
        config_handlers: ConfigHandlers,
    ) -> ApiContext:
        return ApiContext(
            gateway=gateway,
            store=store,
            runners=runners,
            home=self.config.home,
            login=self.login,
            tokens=self._token_service(store),
            lifecycle=self.lifecycle,
            config=config_handlers,
            status=ApiStatus(
                ready=lambda: self.gateway_status.running,
                snapshot=self.gateway_status.snapshot,
                fresh_snapshot=self.gateway_status.fresh_snapshot,
                report=self.status_thread.reporter.report,
                minute_history=self._minute_history(gateway, store),
                recent_log=self.recent_log,
            ),
            keepalive=StreamKeepalive(),
            shared_reads=SharedReads(store),
        )

    def _minute_history(self, gateway: Gateway, store: HomeStore) -> MinuteHistory:
        def lag() -> float:
            loop = self.status_thread.reporter.loop
            return 0.0 if loop is None else loop.worst_minute

        return MinuteHistory(
            gateway.counters,
            store,
            clock=self.clock,
            agents=lambda: gateway.cache.status,
            lag=lag,
            memory=resident_memory,
        )

    def listener(
        self, context: ApiContext, api: ApiPlatform, *, inherited: Sequence[socket.socket]
    ) -> HttpListener:
        listener = HttpListener(
            self.config.settings.gateway,
            routes=self._routes(context, api),
            metrics=partial(_metrics_of, context),
            login=self.login,
            may_read=lambda principal: context.gateway.access.allows(
                principal, Action.READ, GatewayResource()
            ),
            ready=context.status.ready,
            port_chosen="gateway.port" in self.config.origins,
            inherited=inherited,
        )
        context.gateway.live_settings.subscribe(listener.apply_settings, apply_log_level)
        return listener

    def _routes(self, context: ApiContext, api: ApiPlatform) -> list[RouteDef]:
        api_settings = self.config.settings.platforms.get("api", PlatformSettings())
        return [
            *(api.routes() if api_settings.enabled else ()),
            *WebhookRoutes(
                context.gateway.platforms, excluded=api, limiter=self.login.token_limiter
            ).routes(),
            *mount.routes(context),
            *LoginRoutes(self.login).routes(),
            *static_files.routes(),
        ]

    def report_last_hour_and_backups(self, context: ApiContext, backups: BackupScheduler) -> None:
        """Add the statistics of the last hour and the last backup to the status."""
        self.gateway_status.add_sources(
            lambda: {"last_backup": backups.status}, lambda: self._last_hour(context)
        )

    def _last_hour(self, context: ApiContext) -> dict[str, Any]:
        now = self.clock.now()
        prices = context.gateway.settings.prices
        return {
            "last_hour": hour_stats(
                context.status.minute_history.since(now - HOUR), now=now, prices=prices
            ),
            "currency": context.gateway.settings.gateway.currency,
        }

    def control_socket(
        self,
        gateway: Gateway,
        store: HomeStore,
        *,
        link: Callable[[str], str],
        lifecycle_handlers: LifecycleHandlers,
        backups_changed: Callable[[], Awaitable[None]],
        config_handlers: ConfigHandlers,
    ) -> ControlSocket:
        return ControlSocket(
            Paths(self.config.home),
            reads=store,
            fresh_snapshot=self.gateway_status.fresh_snapshot,
            make_login_link=link,
            lifecycle=lifecycle_handlers,
            extra_routes=[
                *BackupCopyHandlers(
                    store, clock=self.clock, backups_changed=backups_changed
                ).routes(),
                *PairingHandlers(
                    gateway.pairing, ready=lambda: self.gateway_status.running
                ).routes(),
                *self._account_handlers(gateway).routes(),
                *config_handlers.routes(),
                *TokenHandlers(self._token_service(store)).routes(),
            ],
        )

    def _token_service(self, store: HomeStore) -> TokenService:
        return TokenService(self.login.tokens, writes=store, clock=self.clock)

    def _account_handlers(self, gateway: Gateway) -> AccountHandlers:
        return AccountHandlers(
            gateway.accounts, clock=self.clock, ready=lambda: self.gateway_status.running
        )


def store_and_runner_status(store: HomeStore, runners: Runners) -> dict[str, Any]:
    """Status fields of the store and the runners; whether commands are sandboxed is known only
    after the first try."""
    return {
        "store": store.status,
        "runners": runners.live_count,
        "sandboxed": runners.sandboxed,
        "why_unsandboxed": runners.why_unsandboxed,
        "sandbox_remedy": runners.remedy,
    }


async def _metrics_of(context: ApiContext) -> str:
    return await render_metrics(
        context.store,
        fresh_snapshot=context.status.fresh_snapshot,
        status_report=context.status.report,
        totals=context.gateway.counters.totals(),
        prices=context.gateway.settings.prices,
    )
