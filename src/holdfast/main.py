"""The composition root: config in, a running gateway out."""

import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import msgspec
from aiohttp.web import RouteDef

from holdfast.agent.memory.guarded import Limits
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import BadProvider, load_providers
from holdfast.config import Config
from holdfast.control.control_socket import ControlSocket
from holdfast.control.departing import Doorway
from holdfast.control.facts import Facts
from holdfast.control.greeting import greeting
from holdfast.control.heartbeat import Heartbeat
from holdfast.control.listener import HttpListener
from holdfast.control.login import Login
from holdfast.control.login_pages import LoginPages
from holdfast.control.metrics import Metrics
from holdfast.control.page import site
from holdfast.control.progress import Progress
from holdfast.control.status_thread import StatusThread
from holdfast.control.v1 import mount
from holdfast.control.v1.pulse import Pulse
from holdfast.control.v1.room import Room
from holdfast.control.v1.shared import SharedReads
from holdfast.core.errors import HoldfastError
from holdfast.core.ports import Platform
from holdfast.core.secret import Secret
from holdfast.core.settings import PlatformSettings, SandboxMode
from holdfast.core.stopping import AskedBy, StopKind, StopOrder
from holdfast.gateway.departure import Departure
from holdfast.gateway.gateway import Broken, Gateway
from holdfast.gateway.parts import Parts
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.restarting import Restarting
from holdfast.models.choice import Chosen, choose
from holdfast.models.pool import ModelPool
from holdfast.models.target import BadTarget
from holdfast.models.voices import Voices
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.platforms.web import WebPlatform
from holdfast.runner.runners import Runners
from holdfast.runner.sandbox import WORKSPACE
from holdfast.service import exits
from holdfast.service.clock import SystemClock
from holdfast.service.crashing import crash_at
from holdfast.service.event_loop import allow_many_connections, loop_factory
from holdfast.service.garbage import rarely_collected
from holdfast.service.ids import Ids
from holdfast.service.lock import HomeInUse, HomeLock
from holdfast.service.logs import logging_to
from holdfast.service.paths import Paths
from holdfast.service.signals import Signals
from holdfast.service.tokens import api_token
from holdfast.store.sqlite import SqliteStore
from holdfast.tools.judging.on_demand import JudgeOnDemand
from holdfast.workshop import Workshop

log = logging.getLogger(__name__)

_KINDS = {
    signal.SIGTERM: StopKind.SIGNAL,  # nobody's plan: the next boot starts it again
    signal.SIGINT: StopKind.STOP,
    signal.SIGUSR1: StopKind.RESTART,
}


def run(config: Config) -> int:
    """Run a gateway until it is told to stop; the exit code says how that went."""
    paths, clock = Paths(config.home), SystemClock()
    try:
        with HomeLock(config.home) as lock:
            token = api_token(paths, configured=config.secret("platforms.api.token"))
            redact = Redaction([*config.secrets.values(), token])
            allow_many_connections()
            with (
                Signals() as signals,
                logging_to(paths.log_file, config.settings.log, redact=redact),
                _warned(config),
                StatusThread(paths, clock=clock) as status,
                asyncio.Runner(loop_factory=loop_factory()) as runner,
            ):
                process = Process(config, lock=lock, status=status, token=token)
                runner.run(process.serve(signals))
        return exits.OK
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


class Process:
    """Owns the running parts of this process, from the store up; knows nothing of messages."""

    def __init__(
        self, config: Config, *, lock: HomeLock, status: StatusThread, token: Secret
    ) -> None:
        self._config = config
        self._lock = lock
        self._status = status
        self._token = token
        self._paths = Paths(config.home)
        self._clock = SystemClock()
        self._new_id = Ids(clock=self._clock)
        self._crash = crash_at(config.crash_at)
        self._progress = Progress()
        self._address = ""
        self._login = Login(token, clock=self._clock)
        self._departure = Departure()
        self._facts = Facts(clock=self._clock, order=lambda: self._departure.order)
        self._lifecycle = Restarting(self._departure, check=self._check, quiet=self._quiet)
        self._model: Chosen  # once the start has come that far

    async def serve(self, signals: Signals) -> None:
        """Start everything, in order, serve until an order, and stop it in the reverse order."""
        loop = asyncio.get_running_loop()
        with (
            rarely_collected() as started,
            Heartbeat(loop, clock=self._clock) as heartbeat,
        ):
            signals.listen(loop, self._signalled)
            self._status.watch(heartbeat)
            self._status.ask(loop, self._facts.fresh)
            self._enter("opening the store")
            async with AsyncExitStack() as stack:
                store = await stack.enter_async_context(
                    SqliteStore(self._paths.db, crash=self._crash)
                )
                pool = await stack.enter_async_context(ModelPool())
                voices = await self._voices(pool)
                runners = self._runners(store)
                if self._config.settings.runner.sandbox is SandboxMode.REQUIRED:
                    await runners.probe()
                api = ApiPlatform(self._token, library=store, new_id=self._new_id)
                gateway = self._gateway(store, voices, runners, api)
                self._facts.read(store)
                self._facts.add(gateway.snapshot, lambda: _bench_facts(store, runners))
                room = self._room(gateway, store, runners)
                await self._listen(stack, room, api)
                await stack.enter_async_context(gateway)
                log.info("Ready at %s.", self._address, extra={"action": "ready"})
                await self._greet(runners)
                started()
                order = await self._departure.asked()
                log.info(
                    "Asked to go: %s, by %s.", order.kind, order.by, extra={"action": "stopping"}
                )
        self._enter("stopped")
        log.info("Stopped; all that is owed is in the store.", extra={"action": "stopped"})

    def _signalled(self, which: signal.Signals) -> None:
        """The first asks; any after it hurries."""
        if self._departure.order is not None:
            self._departure.hurry()
            return
        kind = _KINDS[which]
        order = StopOrder(kind=kind, by=AskedBy.SIGNAL, at=self._clock.now())
        self._departure.ask(order)

    async def _check(self) -> None:
        """A successor is not looked at yet."""

    async def _quiet(self) -> None:
        """No turn is waited for yet."""

    def _runners(self, store: SqliteStore) -> Runners:
        return Runners(
            self._config.home,
            self._config.settings.runner,
            clock=self._clock,
            on_started=store.save_runner,
            on_ended=store.end_runner,
        )

    def _gateway(
        self, store: SqliteStore, voices: Voices, runners: Runners, api: ApiPlatform
    ) -> Gateway:
        config = self._config
        settings = msgspec.structs.replace(config.settings, model=self._model.settings)
        notes = self._notes(store)
        workshop = Workshop(settings, home=config.home, store=store, notes=notes, clock=self._clock)
        return Gateway(
            Parts(
                settings=settings,
                store=store,
                platforms=[api, WebPlatform(), *self._platforms()],
                runners=runners,
                toolbox=workshop.toolbox,
                holders=[workshop.browsers],
                lease=voices.lease,
                model=self._model.choice,
                api_key=config.secret("model.api_key"),
                secrets=[*config.secrets.values(), self._token],
                clock=self._clock,
                new_id=self._new_id,
                crash=self._crash,
                progress=self._enter,
                lifecycle=self._lifecycle,
                judge=JudgeOnDemand(workspaces=(WORKSPACE, str(config.home / "workspaces"))),
                notes=notes,
                memory_providers=load_providers(
                    settings.memory.providers, notes=notes, home=config.home
                ),
                memory_limits=Limits(prefetch=settings.memory.prefetch_timeout),
            )
        )

    def _notes(self, store: SqliteStore) -> Notes:
        redact = Redaction([*self._config.secrets.values(), self._token])
        room = self._config.settings.memory.max_chars
        return Notes(store, clock=self._clock, redact=redact, room=room)

    def _room(self, gateway: Gateway, store: SqliteStore, runners: Runners) -> Room:
        return Room(
            gateway=gateway,
            store=store,
            runners=runners,
            home=self._config.home,
            login=self._login,
            clock=self._clock,
            new_id=self._new_id,
            redact=gateway.house.redact,
            pulse=Pulse(),
            shared=SharedReads(store),
            ready=lambda: self._facts.running,
            fresh=self._facts.fresh,
            document=self._status.outside.document,
        )

    async def _voices(self, pool: ModelPool) -> Voices:
        """Choose the model that answers, where the settings leave that open."""
        config = self._config
        origin = config.origins.get("model.provider", "")
        self._model = await choose(config.settings.model, origin=origin)
        return Voices(self._model.settings, pool, secrets=config.secrets)

    def _routes(self, room: Room, api: ApiPlatform) -> list[RouteDef]:
        wanted = self._config.settings.platforms.get("api", PlatformSettings())
        return [
            *(api.routes() if wanted.enabled else ()),
            *mount.routes(room),
            *LoginPages(self._login).routes(),
            *site.routes(),
        ]

    async def _listen(self, stack: AsyncExitStack, room: Room, api: ApiPlatform) -> None:
        """Open both listeners. Until the gateway is entered, whoever asks is told to wait."""
        listener = await stack.enter_async_context(
            HttpListener(
                self._config.settings.gateway,
                routes=self._routes(room, api),
                metrics=Metrics(room.store, fresh=room.fresh, document=room.document),
                token=self._token,
                ready=lambda: self._facts.running,
                port_chosen="gateway.port" in self._config.origins,
            )
        )
        self._address = listener.address
        self._facts.add(lambda: {"address": self._address})
        self._lock.announce(listener.address)
        await stack.enter_async_context(
            ControlSocket(
                self._paths,
                library=room.store,
                fresh=self._facts.fresh,
                link=self._new_link,
                doorway=Doorway(self._lifecycle, progress=self._progress, clock=self._clock),
            )
        )

    def _new_link(self) -> str:
        """One that opens on this machine, also where the gateway listens on every address."""
        address = self._address.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
        return self._login.link(address)

    def _platforms(self) -> Iterator[Platform]:
        simulated = self._config.settings.platforms.get("simulated")
        if simulated is not None and simulated.enabled and simulated.base_url:
            from holdfast.platforms.simulated.remote import (  # noqa: PLC0415 - few open this door
                RemoteSimulatedPlatform,
            )

            yield RemoteSimulatedPlatform(simulated.base_url)

    def _enter(self, state: str) -> None:
        self._facts.enter(state)
        self._status.publish(self._facts.now())
        self._progress.publish(state)

    async def _greet(self, runners: Runners) -> None:
        """Tell the person who started it; by now it is known whether commands are confined."""
        await runners.probe()
        off = self._config.settings.runner.sandbox is SandboxMode.OFF
        print(
            greeting(
                home=self._config.home,
                address=self._address,
                wanted_port=self._config.settings.gateway.port,
                link=self._new_link(),
                model=self._model.choice,
                unsandboxed="runner.sandbox is off" if off else runners.why_unsandboxed,
            ),
            flush=True,
        )


def _bench_facts(store: SqliteStore, runners: Runners) -> dict[str, Any]:
    """How the writing goes; and whether commands are confined, as far as it was tried."""
    return {
        "store": store.facts,
        "runners": runners.live,
        "sandboxed": runners.sandboxed,
        "why_unsandboxed": runners.why_unsandboxed,
    }


@contextmanager
def _warned(config: Config) -> Iterator[None]:
    for warning in config.warnings:
        log.warning("%s", warning, extra={"action": "config_warning"})
    yield
