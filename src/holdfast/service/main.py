"""The composition root: config in, a running gateway out, and an exit code in the end."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.agent.memory.providers import BadProvider
from holdfast.config import Config
from holdfast.core.config.settings import Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.tracing import Spans
from holdfast.gateway.lifespan import Broken
from holdfast.gateway.redaction import Redaction
from holdfast.models.target import BadTarget
from holdfast.server.status.status_thread import StatusThread
from holdfast.service.event_loop import allow_many_connections, loop_factory
from holdfast.service.footing import Footing
from holdfast.service.ground import Ground
from holdfast.service.intent import IntentFile
from holdfast.service.life import Life
from holdfast.service.signals import Signals
from holdfast.service.supervisors.supervisor import UNIT
from holdfast.service.watchdog import Watchdog
from holdfast.system import exits
from holdfast.system.clock import SystemClock
from holdfast.system.lock import HomeInUse
from holdfast.system.logs import logging_to
from holdfast.system.paths import Paths
from holdfast.system.recent_log import RecentLog
from holdfast.system.tokens import api_token

if TYPE_CHECKING:
    from holdfast.service.supervisors.unit_watch import UnitWatch

log = logging.getLogger(__name__)


def run(config: Config, ground: Ground) -> int:
    """Run a gateway until it is told to stop; the exit code says how that went."""
    try:
        with Signals() as signals, ground.lock:
            return _live(config, ground, signals)
    except HomeInUse as error:
        print(error, file=sys.stderr)
        return exits.HOME_IN_USE
    except (BadTarget, BadProvider) as error:
        print(error, file=sys.stderr)
        return exits.CONFIG_EXIT
    except Broken as error:
        print(f"holdfast stopped: {error}", file=sys.stderr)
        return exits.FAILED
    except HoldfastError as error:
        print(f"holdfast could not start: {error}", file=sys.stderr)
        return exits.FAILED


def _live(config: Config, ground: Ground, signals: Signals) -> int:
    paths, clock, alone = Paths(config.home), SystemClock(), ground.unattended
    token = api_token(paths, configured=config.secret("platforms.api.token"))
    redact = Redaction([*config.secrets.values(), token])
    allow_many_connections()
    intent = IntentFile(paths.intent, now=clock.now)
    before = intent.read()
    intent.starting()
    recent, drift = RecentLog(redact), _Drift(config)
    with (
        logging_to(
            paths.log_file, config.settings.log, redact=redact, unattended=alone, recent=recent
        ) as flush,
        _warned(config, drift),
        StatusThread(paths, clock=clock, drift=drift) as status,
        Watchdog(flush=flush) as watchdog,
        _traced(config) as spans,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        footing = Footing(
            ground=ground,
            status=status,
            signals=signals,
            watchdog=watchdog,
            intent=intent,
            before=before,
            token=token,
            redact=redact,
            log=recent,
            followers=(drift.follow,),
            spans=spans,
        )
        return runner.run(Life(config, footing=footing).live())


class _Drift:
    """To be asked where the installed unit disagrees with what is in force, from any thread; what
    it asks is made when it first is."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = config.settings.gateway
        self._watch: UnitWatch | None = None

    def follow(self, settings: Settings) -> None:
        self._settings, self._watch = settings.gateway, None

    def __call__(self) -> Sequence[str]:
        from holdfast.service.supervisors.installed import supervision  # noqa: PLC0415 - no start waits for it
        from holdfast.service.supervisors.unit_watch import UnitWatch  # noqa: PLC0415 - as above

        watch = self._watch
        if watch is None:
            where = supervision(self._config.environ, user_id=os.getuid())
            watch = self._watch = UnitWatch(self._config.home, self._settings, where=where)
        return watch.drift()


@contextmanager
def _traced(config: Config) -> Iterator[Spans | None]:
    """Where spans go while this is open; a gateway that cannot trace runs all the same."""
    settings = config.settings.otel
    if not settings.endpoint:
        yield None
        return
    try:
        from holdfast.server.sender import Sender, otlp  # noqa: PLC0415 - heavy, and an extra
    except ImportError as error:
        log.error(
            "There are no traces, since %s is not installed: pip install 'holdfast[otel]'.",
            error.name,
            extra={"action": "otel_missing"},
        )
        yield None
        return
    exporter = otlp(settings, secret=config.secret("otel.header_secret"))
    sender = Sender(exporter, service=settings.service)
    try:
        yield sender
    finally:
        sender.close()


@contextmanager
def _warned(config: Config, drift: _Drift) -> Iterator[None]:
    for warning in config.warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})
    if UNIT in config.environ:  # nobody else's start waits for it; `status` tells them, too
        for told in drift():
            log.warning("%s", told, extra={"action": "unit_drift"})
    yield
