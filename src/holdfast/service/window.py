"""The window of a process: what of a gateway is seen and reached from outside, and by what."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp.web import RouteDef

from holdfast.config import Config
from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.protocols import Clock, Lifecycle, NewId
from holdfast.gateway.gateway import Gateway
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.runner.runners import Runners
from holdfast.server.api import mount
from holdfast.server.api.pulse import Pulse
from holdfast.server.api.room import Room
from holdfast.server.api.shared import SharedReads
from holdfast.server.auth.login import Login
from holdfast.server.auth.login_pages import LoginPages
from holdfast.server.listener import HttpListener
from holdfast.server.local.account_desk import AccountDesk
from holdfast.server.local.config_desk import ConfigDesk
from holdfast.server.local.control_socket import ControlSocket
from holdfast.server.local.copying import Copying
from holdfast.server.local.departing import Doorway
from holdfast.server.local.pairing import PairingDesk
from holdfast.server.local.viewer_desk import ViewerDesk
from holdfast.server.metrics import Metrics
from holdfast.server.page import static_files
from holdfast.server.status.gateway_status import Facts
from holdfast.server.status.machine import resident
from holdfast.server.status.minutes import Minutes
from holdfast.server.status.pace import HOUR, pace
from holdfast.server.status.status_thread import StatusThread
from holdfast.server.webhooks import Hooks
from holdfast.service.backups import Backups
from holdfast.service.reloading import Reloader
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.logs import follow_level
from holdfast.system.paths import Paths
from holdfast.system.recent_log import RecentLog

if TYPE_CHECKING:
    from holdfast.server.config_editor import Configuring


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Makes what listens and what it shows, and opens none of it: that is the process's to say."""

    config: Config
    clock: Clock
    new_id: NewId
    facts: Facts
    status: StatusThread
    lifecycle: Lifecycle
    login: Login
    log: RecentLog

    def config_desk(self, gateway: Gateway, store: SqliteStore, reloader: Reloader) -> ConfigDesk:
        def make() -> "Configuring":
            from holdfast.server.config_editor import Configuring  # noqa: PLC0415 - not for a start

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
            *static_files.routes(),
        ]

    def show_course(self, room: Room, backups: Backups) -> None:
        """How the last hour went, and the last backup."""
        self.facts.add(lambda: {"last_backup": backups.facts}, lambda: self._paced(room))

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
            Paths(self.config.home),
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
