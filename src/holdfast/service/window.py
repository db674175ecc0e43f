"""The window of a process: what of a gateway is seen and reached from outside, and by what."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp.web import RouteDef

from holdfast.config import Config
from holdfast.core.config.settings import PlatformSettings
from holdfast.core.ports.protocols import Clock, IdFactory, Lifecycle
from holdfast.gateway.gateway import Gateway
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.runner.runners import Runners
from holdfast.server.api import mount
from holdfast.server.api.pulse import StreamKeepalive
from holdfast.server.api.room import ApiContext
from holdfast.server.api.shared import SharedReads
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.login_pages import LoginRoutes
from holdfast.server.listener import HttpListener
from holdfast.server.local.account_desk import AccountHandlers
from holdfast.server.local.config_desk import ConfigHandlers
from holdfast.server.local.control_socket import ControlSocket
from holdfast.server.local.copying import BackupCopyHandlers
from holdfast.server.local.departing import LifecycleHandlers
from holdfast.server.local.pairing import PairingHandlers
from holdfast.server.local.viewer_desk import ViewerTokenHandlers
from holdfast.server.metrics import Metrics
from holdfast.server.page import static_files
from holdfast.server.status.gateway_status import GatewayStatus
from holdfast.server.status.machine import resident_memory
from holdfast.server.status.minutes import MinuteHistory
from holdfast.server.status.pace import HOUR, hour_stats
from holdfast.server.status.status_thread import StatusThread
from holdfast.server.webhooks import WebhookRoutes
from holdfast.service.backups import BackupScheduler
from holdfast.service.reloading import Reloader
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.logs import apply_log_level
from holdfast.system.paths import Paths
from holdfast.system.recent_log import RecentLog

if TYPE_CHECKING:
    from holdfast.server.config_editor import ConfigEditor


class ServerWiring(msgspec.Struct, frozen=True, kw_only=True):
    """Makes what listens and what it shows, and opens none of it: that is the process's to say."""

    config: Config
    clock: Clock
    new_id: IdFactory
    gateway_status: GatewayStatus
    status_thread: StatusThread
    lifecycle: Lifecycle
    login: BrowserLogin
    recent_log: RecentLog

    def config_handlers(
        self, gateway: Gateway, store: SqliteStore, reloader: Reloader
    ) -> ConfigHandlers:
        def make() -> "ConfigEditor":
            from holdfast.server.config_editor import ConfigEditor  # noqa: PLC0415 - not for a start

            return ConfigEditor(reloader, history=store, settings=lambda: gateway.services.settings)

        return ConfigHandlers(make, ready=lambda: self.gateway_status.running)

    def api_context(
        self,
        gateway: Gateway,
        store: SqliteStore,
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
            clock=self.clock,
            new_id=self.new_id,
            redact=gateway.services.redact,
            keepalive=StreamKeepalive(),
            shared_reads=SharedReads(store),
            minute_history=self._minute_history(gateway, store),
            recent_log=self.recent_log,
            lifecycle=self.lifecycle,
            config=config_handlers,
            ready=lambda: self.gateway_status.running,
            snapshot=self.gateway_status.snapshot,
            fresh_snapshot=self.gateway_status.fresh_snapshot,
            status_report=self.status_thread.reporter.report,
        )

    def _minute_history(self, gateway: Gateway, store: SqliteStore) -> MinuteHistory:
        def lag() -> float:
            loop = self.status_thread.reporter.loop
            return 0.0 if loop is None else loop.worst_minute

        return MinuteHistory(
            gateway.services.counters,
            store,
            clock=self.clock,
            agents=lambda: gateway.services.cache.status,
            lag=lag,
            memory=resident_memory,
        )

    def listener(
        self, context: ApiContext, api: ApiPlatform, *, inherited: Sequence[socket.socket]
    ) -> HttpListener:
        listener = HttpListener(
            self.config.settings.gateway,
            routes=self._routes(context, api),
            metrics=self._metrics(context),
            login=self.login,
            ready=context.ready,
            port_chosen="gateway.port" in self.config.origins,
            inherited=inherited,
        )
        context.gateway.services.live_settings.subscribe(listener.apply_settings, apply_log_level)
        return listener

    def _metrics(self, context: ApiContext) -> Metrics:
        return Metrics(
            context.store,
            fresh_snapshot=context.fresh_snapshot,
            status_report=context.status_report,
            totals=context.gateway.services.counters.totals,
            prices=lambda: context.gateway.services.settings.prices,
        )

    def _routes(self, context: ApiContext, api: ApiPlatform) -> list[RouteDef]:
        wanted = self.config.settings.platforms.get("api", PlatformSettings())
        return [
            *(api.routes() if wanted.enabled else ()),
            *WebhookRoutes(context.gateway.services.platforms, excluded=api).routes(),
            *mount.routes(context),
            *LoginRoutes(self.login).routes(),
            *static_files.routes(),
        ]

    def report_pace_and_backups(self, context: ApiContext, backups: BackupScheduler) -> None:
        """How the last hour went, and the last backup."""
        self.gateway_status.add_sources(
            lambda: {"last_backup": backups.status}, lambda: self._recent_pace(context)
        )

    def _recent_pace(self, context: ApiContext) -> dict[str, Any]:
        now = self.clock.now()
        prices = context.gateway.services.settings.prices
        return {
            "pace": hour_stats(context.minute_history.since(now - HOUR), now=now, prices=prices)
        }

    def control_socket(
        self,
        gateway: Gateway,
        store: SqliteStore,
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
                *ViewerTokenHandlers(self.login.viewers, writes=store, clock=self.clock).routes(),
            ],
        )

    def _account_handlers(self, gateway: Gateway) -> AccountHandlers:
        return AccountHandlers(
            gateway.accounts, clock=self.clock, ready=lambda: self.gateway_status.running
        )


def store_and_runner_status(store: SqliteStore, runners: Runners) -> dict[str, Any]:
    """How the writing goes; and whether commands are confined, as far as it was tried."""
    return {
        "store": store.status,
        "runners": runners.live_count,
        "sandboxed": runners.sandboxed,
        "why_unsandboxed": runners.why_unsandboxed,
    }
