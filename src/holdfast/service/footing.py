"""What a process stands on, and what it has begun: handed from its start to its stop."""

import msgspec

from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.secret import Secret
from holdfast.gateway.lifespan import RunningGateway
from holdfast.gateway.live_settings import SettingsSubscriber
from holdfast.gateway.redaction import Redaction
from holdfast.models.pool import ModelPool
from holdfast.server.listener import HttpListener
from holdfast.server.local.control_socket import ControlSocket
from holdfast.server.status.status_thread import StatusThread
from holdfast.service.ground import LaunchOptions
from holdfast.service.intent import Intent, IntentFile, IntentState
from holdfast.service.reloading import Reloader
from holdfast.service.signals import SignalHandlers
from holdfast.service.upkeep import Maintenance
from holdfast.service.watchdog import Watchdog
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.recent_log import RecentLog


class ProcessContext(msgspec.Struct, frozen=True, kw_only=True):
    """What is there before the event loop turns, and when it has stopped."""

    launch: LaunchOptions
    status_thread: StatusThread
    signals: SignalHandlers
    watchdog: Watchdog
    intent: IntentFile
    previous_intent: Intent | None  # what the intent was when this process came
    token: Secret
    redact: Redaction  # the one of this process: whoever keeps or says something has it
    recent_log: RecentLog
    settings_subscribers: tuple[
        SettingsSubscriber, ...
    ] = ()  # who goes by the settings and is no part of the gateway
    spans: SpanExporter | None = None  # None: nobody collects traces

    @property
    def was_running(self) -> bool:
        """The process before this one was ready once, and nobody had asked it to stop."""
        ran = (IntentState.RUNNING, IntentState.DRAINING)
        return self.previous_intent is not None and self.previous_intent.state in ran


class StartedParts(msgspec.Struct):
    """What a start has entered so far, which a stop has to leave."""

    store: SqliteStore | None = None
    models: ModelPool | None = None
    listener: HttpListener | None = None
    control: ControlSocket | None = None
    running: RunningGateway | None = None
    reloader: Reloader | None = None
    maintenance: Maintenance | None = None
    ready: bool = False
