"""What a process stands on, and what it has begun: handed from its start to its stop."""

import msgspec

from holdfast.core.ops.tracing import Spans
from holdfast.core.secret import Secret
from holdfast.gateway.lifespan import Running
from holdfast.gateway.live_settings import Follower
from holdfast.gateway.redaction import Redaction
from holdfast.models.pool import ModelPool
from holdfast.server.listener import HttpListener
from holdfast.server.local.control_socket import ControlSocket
from holdfast.server.status.status_thread import StatusThread
from holdfast.service.ground import Ground
from holdfast.service.intent import Intent, IntentFile, Recorded
from holdfast.service.reloading import Reloader
from holdfast.service.signals import Signals
from holdfast.service.upkeep import Upkeep
from holdfast.service.watchdog import Watchdog
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.recent_log import RecentLog


class Footing(msgspec.Struct, frozen=True, kw_only=True):
    """What is there before the event loop turns, and when it has stopped."""

    ground: Ground
    status: StatusThread
    signals: Signals
    watchdog: Watchdog
    intent: IntentFile
    before: Intent | None  # what the intent was when this process came
    token: Secret
    redact: Redaction  # the one of this process: whoever keeps or says something has it
    log: RecentLog
    followers: tuple[Follower, ...] = ()  # who goes by the settings and is no part of the gateway
    spans: Spans | None = None  # None: nobody collects traces

    @property
    def ran(self) -> bool:
        """The process before this one was ready once, and nobody had asked it to stop."""
        ran = (Recorded.RUNNING, Recorded.DRAINING)
        return self.before is not None and self.before.state in ran


class Begun(msgspec.Struct):
    """What a start has entered so far, which a stop has to leave."""

    store: SqliteStore | None = None
    models: ModelPool | None = None
    listener: HttpListener | None = None
    control: ControlSocket | None = None
    running: Running | None = None
    reloader: Reloader | None = None
    upkeep: Upkeep | None = None
    ready: bool = False
