"""Wiring: how the parts of a gateway fit together, as the configuration has it."""

import sys
from collections.abc import Callable

import msgspec

from holdfast.agent.memory.guarded import Limits
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import load_providers
from holdfast.config import Config, shared_folder
from holdfast.core.crash_points import Crash
from holdfast.core.ops.tracing import Spans
from holdfast.core.ports.protocols import Clock, Lifecycle, NewId, Platform
from holdfast.core.secret import Secret
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.parts import Parts
from holdfast.gateway.redaction import Redaction
from holdfast.models.choice import Chosen
from holdfast.models.pool import ModelPool
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.web.platform import WebPlatform
from holdfast.runner.runners import Runners
from holdfast.runner.sandbox import WORKSPACE
from holdfast.service.agent_config import Outfitting, chosen
from holdfast.service.backing_up import BackupProgram
from holdfast.service.backups import Backups
from holdfast.service.doors import identities, open_doors
from holdfast.service.reloading import Reloader
from holdfast.service.supervised import scopes_of
from holdfast.service.toolsets import Workshop
from holdfast.service.workspace_files import WorkspaceFiles
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.credential_locks import AccountClaims
from holdfast.system.paths import Paths
from holdfast.system.wall_alarm import WallAlarm
from holdfast.tools.shell import JudgeOnDemand


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """Makes the parts and enters none of them: when each lives is the process's to say."""

    config: Config
    token: Secret
    clock: Clock
    new_id: NewId
    crash: Crash
    lifecycle: Lifecycle
    progress: Callable[[str], None]
    redact: Redaction
    spans: Spans | None = None

    def store(self) -> SqliteStore:
        return SqliteStore(Paths(self.config.home).db, crash=self.crash, redact=self.redact)

    async def model(self) -> Chosen:
        """The model that answers, chosen where the settings leave that open."""
        return await chosen(self.config)

    def runners(self, store: SqliteStore) -> Runners:
        return Runners(
            self.config.home,
            self.config.settings.runner,
            clock=self.clock,
            on_started=store.save_runner,
            on_ended=store.end_runner,
            scopes=scopes_of(self.config, clock=self.clock),
        )

    def api(self, store: SqliteStore) -> ApiPlatform:
        return ApiPlatform(self.token, library=store, new_id=self.new_id)

    def gateway(
        self,
        store: SqliteStore,
        pool: ModelPool,
        *,
        model: Chosen,
        runners: Runners,
        api: ApiPlatform,
    ) -> tuple[Gateway, Reloader]:
        """With who puts another configuration into force there."""
        config = self.config
        notes = self._notes(store)
        doors = open_doors(config, clock=self.clock, new_id=self.new_id)
        platforms: list[Platform] = [api, WebPlatform(), *doors]
        files = WorkspaceFiles(config.home)
        workshop = Workshop(
            config.settings.browser, home=config.home, store=store, notes=notes, clock=self.clock
        )
        by, claims = config.settings.model, self._claims()
        outfitting = Outfitting(pool, workshop, token=self.token, model=model, by=by)
        outfit = outfitting.outfit(
            config, settings=config.settings, model=model, platforms=platforms
        )
        settings = outfit.settings
        gateway = Gateway(
            Parts(
                settings=settings,
                store=store,
                platforms=platforms,
                runners=runners,
                toolbox=outfit.toolbox,
                holders=[workshop.browsers],
                lease=outfit.lease,
                model=outfit.model,
                api_key=outfit.api_key,
                spare_keys=outfit.spare_keys,
                secrets=outfit.secrets,
                redact=self.redact,
                clock=self.clock,
                new_id=self.new_id,
                crash=self.crash,
                progress=self.progress,
                lifecycle=self.lifecycle,
                alarm=WallAlarm() if sys.platform == "linux" else None,
                judge=JudgeOnDemand(workspaces=(WORKSPACE, str(config.home / "workspaces"))),
                notes=notes,
                memory_providers=load_providers(
                    settings.memory.providers, notes=notes, home=config.home
                ),
                memory_limits=Limits(prefetch=settings.memory.prefetch_timeout),
                claims=claims,
                put_file=files.put,
                read_file=files.read,
                drop_file=files.drop,
                spans=self.spans,
                trace_key=f"{config.home}:{self.token.reveal()}",
            )
        )
        # The very one that hears of new secrets.
        store.redact_by(gateway.house.redact)
        store.when_audited(gateway.house.feeds.audited)
        return gateway, Reloader(
            config,
            gateway=gateway,
            outfitting=outfitting,
            keeping=store,
            claims=claims,
            clock=self.clock,
            new_id=self.new_id,
        )

    def backups(self, gateway: Gateway) -> Backups:
        settings, home = self.config.settings.backup, self.config.home
        folder = Paths(home).backups(settings.dir)
        program = BackupProgram(
            home, folder=folder, keep=settings.keep, environ=self.config.environ
        )
        return Backups(
            settings, folder=folder, maker=program, quiet=gateway.lanes.quiet, clock=self.clock
        )

    def _claims(self) -> AccountClaims:
        folder = shared_folder(self.config.environ) / "accounts"
        return AccountClaims(folder, home=self.config.home, identities=identities(self.config))

    def _notes(self, store: SqliteStore) -> Notes:
        room = self.config.settings.memory.max_chars
        return Notes(store, clock=self.clock, redact=self.redact, room=room)
