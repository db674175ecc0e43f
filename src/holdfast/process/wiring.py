"""Wiring: how the parts of a gateway fit together, as the configuration has it."""

import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp.web import RouteDef

from holdfast.agent.memory.guarded import Limits
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import load_providers
from holdfast.config import Config, shared_folder
from holdfast.control.account_desk import AccountDesk
from holdfast.control.config_desk import ConfigDesk
from holdfast.control.control_socket import ControlSocket
from holdfast.control.copying import Copying
from holdfast.control.departing import Doorway
from holdfast.control.facts import Facts
from holdfast.control.hooks import Hooks
from holdfast.control.listener import HttpListener
from holdfast.control.login import Login
from holdfast.control.login_pages import LoginPages
from holdfast.control.machine import resident
from holdfast.control.metrics import Metrics
from holdfast.control.minutes import Minutes
from holdfast.control.pace import HOUR, pace
from holdfast.control.page import site
from holdfast.control.pairing import PairingDesk
from holdfast.control.status_thread import StatusThread
from holdfast.control.v1 import mount
from holdfast.control.v1.pulse import Pulse
from holdfast.control.v1.room import Room
from holdfast.control.v1.shared import SharedReads
from holdfast.control.viewer_desk import ViewerDesk
from holdfast.core.crash import Crash
from holdfast.core.ports import Clock, Lifecycle, NewId, Platform
from holdfast.core.secret import Secret
from holdfast.core.settings import PlatformSettings
from holdfast.core.tracing import Spans
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.parts import Parts
from holdfast.gateway.redaction import Redaction
from holdfast.models.choice import Chosen
from holdfast.models.pool import ModelPool
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.web import WebPlatform
from holdfast.process.backups import Backups
from holdfast.process.doors import identities, open_doors
from holdfast.process.outfitting import Outfitting, chosen
from holdfast.process.reloading import Reloader
from holdfast.process.supervised import scopes_of
from holdfast.process.upkeep import Upkeep
from holdfast.process.workspace_files import WorkspaceFiles
from holdfast.runner.runners import Runners
from holdfast.runner.sandbox import WORKSPACE
from holdfast.service.backing_up import BackupProgram
from holdfast.service.claims import AccountClaims
from holdfast.service.logs import follow_level
from holdfast.service.paths import Paths
from holdfast.service.recent_log import RecentLog
from holdfast.service.wall_alarm import WallAlarm
from holdfast.store.sqlite import SqliteStore
from holdfast.tools.judging.on_demand import JudgeOnDemand
from holdfast.workshop import Workshop

if TYPE_CHECKING:
    from holdfast.control.configuring import Configuring


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """Makes the parts and enters none of them: when each lives is the process's to say."""

    config: Config
    token: Secret
    clock: Clock
    new_id: NewId
    crash: Crash
    facts: Facts
    status: StatusThread
    lifecycle: Lifecycle
    progress: Callable[[str], None]
    login: Login
    redact: Redaction
    log: RecentLog
    spans: Spans | None = None

    @property
    def paths(self) -> Paths:
        return Paths(self.config.home)

    def store(self) -> SqliteStore:
        return SqliteStore(self.paths.db, crash=self.crash, redact=self.redact)

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

    def _claims(self) -> AccountClaims:
        folder = shared_folder(self.config.environ) / "accounts"
        return AccountClaims(folder, home=self.config.home, identities=identities(self.config))

    def _notes(self, store: SqliteStore) -> Notes:
        room = self.config.settings.memory.max_chars
        return Notes(store, clock=self.clock, redact=self.redact, room=room)

    def config_desk(self, gateway: Gateway, store: SqliteStore, reloader: Reloader) -> ConfigDesk:
        def make() -> "Configuring":
            from holdfast.control.configuring import Configuring  # noqa: PLC0415 - not for a start

            return Configuring(reloader, kept=store, settings=lambda: gateway.house.settings)

        return ConfigDesk(make, ready=lambda: self.facts.running)

    def room(
        self, gateway: Gateway, store: SqliteStore, runners: Runners, *, config_desk: ConfigDesk
    ) -> Room:
        return Room(
            gateway=gateway,
            store=store,
            runners=runners,
            home=self.config.home,
            login=self.login,
            clock=self.clock,
            new_id=self.new_id,
            redact=gateway.house.redact,
            pulse=Pulse(),
            shared=SharedReads(store),
            minutes=self._minutes(gateway, store),
            log=self.log,
            lifecycle=self.lifecycle,
            config_desk=config_desk,
            ready=lambda: self.facts.running,
            now=self.facts.now,
            fresh=self.facts.fresh,
            document=self.status.outside.document,
        )

    def _minutes(self, gateway: Gateway, store: SqliteStore) -> Minutes:
        def lag() -> float:
            loop = self.status.outside.loop
            return 0.0 if loop is None else loop.worst_minute

        return Minutes(
            gateway.house.tally,
            store,
            clock=self.clock,
            agents=lambda: gateway.house.cache.facts,
            lag=lag,
            memory=resident,
        )

    def listener(
        self, room: Room, api: ApiPlatform, *, inherited: Sequence[socket.socket]
    ) -> HttpListener:
        listener = HttpListener(
            self.config.settings.gateway,
            routes=self._routes(room, api),
            metrics=self._metrics(room),
            login=self.login,
            ready=room.ready,
            port_chosen="gateway.port" in self.config.origins,
            inherited=inherited,
        )
        room.gateway.house.in_force.tell(listener.follow, follow_level)
        return listener

    def _metrics(self, room: Room) -> Metrics:
        return Metrics(
            room.store,
            fresh=room.fresh,
            document=room.document,
            totals=room.gateway.house.tally.totals,
            prices=lambda: room.gateway.house.settings.prices,
        )

    def _routes(self, room: Room, api: ApiPlatform) -> list[RouteDef]:
        wanted = self.config.settings.platforms.get("api", PlatformSettings())
        return [
            *(api.routes() if wanted.enabled else ()),
            *Hooks(room.gateway.house.doors, but=api).routes(),
            *mount.routes(room),
            *LoginPages(self.login).routes(),
            *site.routes(),
        ]

    def upkeep(self, store: SqliteStore, room: Room) -> Upkeep:
        settings, home = self.config.settings.backup, self.config.home
        folder = self.paths.backups(settings.dir)
        program = BackupProgram(
            home, folder=folder, keep=settings.keep, environ=self.config.environ
        )
        backups = Backups(
            settings, folder=folder, maker=program, quiet=room.gateway.quiet, clock=self.clock
        )
        self.facts.add(lambda: {"last_backup": backups.facts}, lambda: self._paced(room))
        return Upkeep(store, backups=backups, minutes=room.minutes)

    def _paced(self, room: Room) -> dict[str, Any]:
        now = self.clock.now()
        prices = room.gateway.house.settings.prices
        return {"pace": pace(room.minutes.since(now - HOUR), now=now, prices=prices)}

    def control_socket(
        self,
        gateway: Gateway,
        store: SqliteStore,
        *,
        link: Callable[[str], str],
        doorway: Doorway,
        shelf_changed: Callable[[], Awaitable[None]],
        config_desk: ConfigDesk,
    ) -> ControlSocket:
        return ControlSocket(
            self.paths,
            library=store,
            fresh=self.facts.fresh,
            link=link,
            doorway=doorway,
            more=[
                *Copying(store, clock=self.clock, shelf_changed=shelf_changed).routes(),
                *PairingDesk(gateway.pairing, ready=lambda: self.facts.running).routes(),
                *self._account_desk(gateway).routes(),
                *config_desk.routes(),
                *ViewerDesk(self.login.viewers, journal=store, clock=self.clock).routes(),
            ],
        )

    def _account_desk(self, gateway: Gateway) -> AccountDesk:
        return AccountDesk(gateway.accounts, clock=self.clock, ready=lambda: self.facts.running)


def bench_facts(store: SqliteStore, runners: Runners) -> dict[str, Any]:
    """How the writing goes; and whether commands are confined, as far as it was tried."""
    return {
        "store": store.facts,
        "runners": runners.live,
        "sandboxed": runners.sandboxed,
        "why_unsandboxed": runners.why_unsandboxed,
    }
