"""Wiring: how the parts of a gateway fit together, as the configuration has it."""

import sys
from collections.abc import Callable

import msgspec

from holdfast.agent.memory.guarded import ProviderLimits
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import load_providers
from holdfast.config import Config, shared_state_dir
from holdfast.core.crash_points import CrashHook
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.ports.protocols import Clock, IdFactory, Lifecycle, Platform
from holdfast.core.secret import Secret
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.parts import GatewayDependencies
from holdfast.gateway.redaction import Redaction
from holdfast.models.choice import SelectedModel
from holdfast.models.pool import ModelPool
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.web.platform import WebPlatform
from holdfast.runner.runners import Runners
from holdfast.runner.sandbox import WORKSPACE
from holdfast.service.agent_config import AgentConfigBuilder, select_configured_model
from holdfast.service.backing_up import BackupCommand
from holdfast.service.backups import BackupScheduler
from holdfast.service.doors import credential_identities, open_platforms
from holdfast.service.reloading import Reloader
from holdfast.service.supervised import runner_scopes
from holdfast.service.toolsets import ToolsetBuilder
from holdfast.service.workspace_files import WorkspaceFiles
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.credential_locks import FileCredentialLocks
from holdfast.system.paths import Paths
from holdfast.system.wall_alarm import TimerfdTimer
from holdfast.tools.shell import LazyShellJudge


class GatewayWiring(msgspec.Struct, frozen=True, kw_only=True):
    """Makes the parts and enters none of them: when each lives is the process's to say."""

    config: Config
    token: Secret
    clock: Clock
    new_id: IdFactory
    crash: CrashHook
    lifecycle: Lifecycle
    progress: Callable[[str], None]
    redact: Redaction
    spans: SpanExporter | None = None

    def store(self) -> SqliteStore:
        return SqliteStore(Paths(self.config.home).db, crash=self.crash, redact=self.redact)

    async def select_model(self) -> SelectedModel:
        """The model that answers, chosen where the settings leave that open."""
        return await select_configured_model(self.config)

    def runners(self, store: SqliteStore) -> Runners:
        return Runners(
            self.config.home,
            self.config.settings.runner,
            clock=self.clock,
            on_started=store.save_runner,
            on_ended=store.end_runner,
            scopes=runner_scopes(self.config, clock=self.clock),
        )

    def api(self, store: SqliteStore) -> ApiPlatform:
        return ApiPlatform(self.token, reads=store, new_id=self.new_id)

    def gateway(
        self,
        store: SqliteStore,
        pool: ModelPool,
        *,
        model: SelectedModel,
        runners: Runners,
        api: ApiPlatform,
    ) -> tuple[Gateway, Reloader]:
        """With who puts another configuration into force there."""
        config = self.config
        notes = self._notes(store)
        doors = open_platforms(config, clock=self.clock, new_id=self.new_id)
        platforms: list[Platform] = [api, WebPlatform(), *doors]
        files = WorkspaceFiles(config.home)
        workshop = ToolsetBuilder(
            config.settings.browser, home=config.home, store=store, notes=notes, clock=self.clock
        )
        by, claims = config.settings.model, self._credential_locks()
        outfitting = AgentConfigBuilder(
            pool, workshop, token=self.token, model=model, model_settings=by
        )
        outfit = outfitting.build(
            config, settings=config.settings, model=model, platforms=platforms
        )
        settings = outfit.settings
        gateway = Gateway(
            GatewayDependencies(
                settings=settings,
                store=store,
                platforms=platforms,
                runners=runners,
                toolbox=outfit.toolbox,
                holders=[workshop.browsers],
                lease=outfit.lease,
                model=outfit.model,
                api_key=outfit.api_key,
                fallback_keys=outfit.fallback_keys,
                secrets=outfit.secrets,
                redact=self.redact,
                clock=self.clock,
                new_id=self.new_id,
                crash=self.crash,
                progress=self.progress,
                lifecycle=self.lifecycle,
                alarm=TimerfdTimer() if sys.platform == "linux" else None,
                judge=LazyShellJudge(workspaces=(WORKSPACE, str(config.home / "workspaces"))),
                notes=notes,
                memory_providers=load_providers(
                    settings.memory.providers, notes=notes, home=config.home
                ),
                memory_limits=ProviderLimits(prefetch=settings.memory.prefetch_timeout),
                credential_locks=claims,
                store_file=files.put,
                read_file=files.read,
                delete_file=files.drop,
                spans=self.spans,
                trace_key=f"{config.home}:{self.token.reveal()}",
            )
        )
        # The very one that hears of new secrets.
        store.set_redaction(gateway.services.redact)
        store.on_audit_growth(gateway.services.feeds.audit_changed)
        return gateway, Reloader(
            config,
            gateway=gateway,
            agent_configs=outfitting,
            versions=store,
            credential_locks=claims,
            clock=self.clock,
            new_id=self.new_id,
        )

    def backups(self, gateway: Gateway) -> BackupScheduler:
        settings, home = self.config.settings.backup, self.config.home
        folder = Paths(home).backups(settings.dir)
        program = BackupCommand(
            home, folder=folder, keep=settings.keep, environ=self.config.environ
        )
        return BackupScheduler(
            settings,
            folder=folder,
            maker=program,
            wait_until_idle=gateway.lanes.wait_until_idle,
            clock=self.clock,
        )

    def _credential_locks(self) -> FileCredentialLocks:
        folder = shared_state_dir(self.config.environ) / "accounts"
        return FileCredentialLocks(
            folder, home=self.config.home, identities=credential_identities(self.config)
        )

    def _notes(self, store: SqliteStore) -> Notes:
        room = self.config.settings.memory.max_chars
        return Notes(store, clock=self.clock, redact=self.redact, max_chars=room)
