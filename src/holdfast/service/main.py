"""The composition root: config in, a running gateway out, and an exit code in the end."""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.agent.memory.providers import MemoryProviderUnavailable
from holdfast.config import Config
from holdfast.core.config.settings import Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.ops.tracing import SpanExporter
from holdfast.gateway.lifespan import GatewayCrashed
from holdfast.gateway.redaction import Redaction
from holdfast.models.target import InvalidTarget
from holdfast.server.status.status_thread import StatusThread
from holdfast.service.event_loop import loop_factory, raise_open_file_limit
from holdfast.service.footing import ProcessContext
from holdfast.service.ground import LaunchOptions
from holdfast.service.intent import IntentFile
from holdfast.service.life import GatewayProcess
from holdfast.service.signals import SignalHandlers
from holdfast.service.supervisors.supervisor import UNIT_VARIABLE
from holdfast.service.watchdog import Watchdog
from holdfast.system import exits
from holdfast.system.clock import SystemClock
from holdfast.system.lock import HomeInUse
from holdfast.system.logs import logging_to
from holdfast.system.paths import Paths
from holdfast.system.recent_log import RecentLog
from holdfast.system.tokens import api_token

if TYPE_CHECKING:
    from holdfast.service.supervisors.unit_watch import UnitDriftCache

log = logging.getLogger(__name__)


def run(config: Config, launch: LaunchOptions) -> int:
    """Run a gateway until it is told to stop; the exit code says how that went."""
    try:
        with SignalHandlers() as signals, launch.lock:
            return _run_locked(config, launch, signals)
    except HomeInUse as error:
        print(error, file=sys.stderr)
        return exits.HOME_IN_USE
    except (InvalidTarget, MemoryProviderUnavailable) as error:
        print(error, file=sys.stderr)
        return exits.CONFIG_EXIT
    except GatewayCrashed as error:
        print(f"holdfast stopped: {error}", file=sys.stderr)
        return exits.FAILED
    except HoldfastError as error:
        print(f"holdfast could not start: {error}", file=sys.stderr)
        return exits.FAILED


def _run_locked(config: Config, launch: LaunchOptions, signals: SignalHandlers) -> int:
    paths, clock, alone = Paths(config.home), SystemClock(), launch.unattended
    token = api_token(paths, configured=config.secret("platforms.api.token"))
    redact = Redaction([*config.secrets.values(), token])
    raise_open_file_limit()
    intent = IntentFile(paths.intent, now=clock.now)
    before = intent.read()
    intent.record_starting()
    recent, drift = RecentLog(redact), _UnitDrift(config)
    with (
        logging_to(
            paths.log_file, config.settings.log, redact=redact, unattended=alone, recent=recent
        ) as flush,
        _log_warnings(config, drift),
        StatusThread(paths, clock=clock, unit_drift=drift) as status,
        Watchdog(flush=flush) as watchdog,
        _open_tracing(config) as spans,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        footing = ProcessContext(
            launch=launch,
            status_thread=status,
            signals=signals,
            watchdog=watchdog,
            intent=intent,
            previous_intent=before,
            token=token,
            redact=redact,
            recent_log=recent,
            settings_subscribers=(drift.apply_settings,),
            spans=spans,
        )
        return runner.run(GatewayProcess(config, context=footing).run())


class _UnitDrift:
    """To be asked where the installed unit disagrees with what is in force, from any thread; what
    it asks is made when it first is."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = config.settings.gateway
        self._cache: UnitDriftCache | None = None

    def apply_settings(self, settings: Settings) -> None:
        self._settings, self._cache = settings.gateway, None

    def __call__(self) -> Sequence[str]:
        from holdfast.service.supervisors.installed import supervisor_backends  # noqa: PLC0415 - no start waits for it
        from holdfast.service.supervisors.unit_watch import UnitDriftCache  # noqa: PLC0415 - as above

        watch = self._cache
        if watch is None:
            where = supervisor_backends(self._config.environ, user_id=os.getuid())
            watch = self._cache = UnitDriftCache(self._config.home, self._settings, backends=where)
        return watch.drift()


@contextmanager
def _open_tracing(config: Config) -> Iterator[SpanExporter | None]:
    """Where spans go while this is open; a gateway that cannot trace runs all the same."""
    settings = config.settings.otel
    if not settings.endpoint:
        yield None
        return
    try:
        from holdfast.server.sender import OtlpSpanSender, otlp_exporter  # noqa: PLC0415 - heavy, and an extra
    except ImportError as error:
        log.error(
            "There are no traces, since %s is not installed: pip install 'holdfast[otel]'.",
            error.name,
            extra={"action": "otel_missing"},
        )
        yield None
        return
    exporter = otlp_exporter(settings, secret=config.secret("otel.header_secret"))
    sender = OtlpSpanSender(exporter, service=settings.service)
    try:
        yield sender
    finally:
        sender.close()


@contextmanager
def _log_warnings(config: Config, drift: _UnitDrift) -> Iterator[None]:
    for warning in config.warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})
    if (
        UNIT_VARIABLE in config.environ
    ):  # nobody else's start waits for it; `status` tells them, too
        for told in drift():
            log.warning("%s", told, extra={"action": "unit_drift"})
    yield
