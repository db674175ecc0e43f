"""The API of a home that no gateway runs for: the same endpoints, on its store, in this process.

Its parts are those of a gateway that is built and never started, so that there is one
implementation of everything that the API answers. No platform is opened and no model is called.
"""

import asyncio
import secrets
import socket
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

import msgspec
from aiohttp import web

from holdfast.config import Config, ConfigError, load
from holdfast.config.home import chosen_store, process_environment
from holdfast.core.config.settings import ModelSettings, Provider, Settings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import HomeStore
from holdfast.core.secrets import Secret
from holdfast.gateway.lifecycle.stop_request import RestartController, StopRequest
from holdfast.gateway.redaction import Redaction
from holdfast.models.pool import ModelPool
from holdfast.models.selection import select_model
from holdfast.server.api import mount
from holdfast.server.api.context import ApiContext
from holdfast.server.auth.login import BrowserLogin
from holdfast.server.auth.tokens import ApiTokens
from holdfast.server.status.gateway_status import RUNNING, GatewayStatus
from holdfast.server.status.thread import StatusThread
from holdfast.service.wiring import GatewayWiring, ServerWiring
from holdfast.store.backup.restore_plan import PLAN_FILE
from holdfast.store.implementations import closed_store, store_implementation
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.lock import HomeLock
from holdfast.system.logs import RecentLog
from holdfast.system.paths import Paths


@dataclass(frozen=True, slots=True, kw_only=True)
class _Serving:
    """What the thread serves with: its event loop, the protocol factory, and the order to end."""

    loop: asyncio.AbstractEventLoop
    server: web.Server
    closing: asyncio.Event


class OfflineApi:
    """Owns the lock of a home, its open store, and the thread that serves the API from it.

    Nothing listens: `connect` returns one end of a socket pair. In a home without a store, the
    store is an empty one in a temporary folder, and the home stays as it is. Raises `HomeInUse` if
    another process holds the home, and what opening the store raises.
    """

    def __init__(self, home: Path, *, purpose: str) -> None:
        self._home = home
        self._purpose = purpose
        self.token = Secret(secrets.token_urlsafe())
        self._open = ExitStack()
        self._started: Future[_Serving] = Future()
        # In a copy of the context: errors are in the language of the caller.
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._run,), name="offline API"
        )
        self._database = Paths(home).db

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            if has_stored_data(self._home):
                opened.enter_context(HomeLock(self._home, purpose=self._purpose))
            else:
                folder = opened.enter_context(TemporaryDirectory(prefix="holdfast-"))
                self._database = Path(folder) / self._database.name
            self._thread.start()
            opened.callback(self._thread.join)
            serving = self._started.result()
            opened.callback(serving.loop.call_soon_threadsafe, serving.closing.set)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def connect(self) -> socket.socket:
        """A connection that is served like one over HTTP."""
        serving = self._started.result()
        ours, theirs = socket.socketpair()
        accepted = serving.loop.connect_accepted_socket(serving.server, theirs)
        asyncio.run_coroutine_threadsafe(accepted, serving.loop).result()
        return ours

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            if self._started.done():
                raise
            self._started.set_exception(error)

    async def _serve(self) -> None:
        async with offline_store(self._database) as store, ModelPool() as pool:
            app = web.Application()
            app.add_routes(mount.routes(await self._build_context(store, pool)))
            runner = web.AppRunner(app, handle_signals=False, access_log=None)
            await runner.setup()
            assert runner.server is not None, "it was set up"
            closing = asyncio.Event()
            self._started.set_result(
                _Serving(loop=asyncio.get_running_loop(), server=runner.server, closing=closing)
            )
            await closing.wait()
            await runner.cleanup()

    async def _build_context(self, store: HomeStore, pool: ModelPool) -> ApiContext:
        config, known_secrets = _offline_config(self._home)
        clock, redact = SystemClock(), Redaction(known_secrets)
        lifecycle = RestartController(StopRequest(), check=_refuse, wait_until_idle=_refuse)
        wiring = GatewayWiring(
            config=config,
            token=self.token,
            api_tokens=ApiTokens(Paths(self._home).tokens, clock=clock),
            runtime=Runtime(clock, IdGenerator(clock=clock)),
            lifecycle=lifecycle,
            progress=lambda phase: None,
            redact=redact,
        )
        egress = wiring.egress(store)
        runners = wiring.runners(store, egress)
        gateway, reloader = wiring.gateway(
            store,
            pool,
            model=await select_model(config.settings.model, origin=""),
            runners=runners,
            egress=egress,
            api=wiring.api(store),
        )
        status = GatewayStatus(clock=clock, stop_order=lambda: None)
        status.enter_phase(RUNNING)  # the endpoints answer
        server = ServerWiring(
            config=config,
            clock=clock,
            gateway_status=status,
            status_thread=StatusThread(Paths(self._home), clock=clock),
            lifecycle=lifecycle,
            login=BrowserLogin(
                self.token,
                tokens=wiring.api_tokens,
                key=self.token,
                ended=Paths(self._home).ended_logins,
                clock=clock,
            ),
            recent_log=RecentLog(redact),
        )
        handlers = server.config_handlers(gateway, store, reloader)
        return server.api_context(gateway, store, runners, config_handlers=handlers)


def offline_store(path: Path) -> HomeStore:
    """The store of a home without a gateway."""
    return store_implementation(chosen_store())(path)


def has_stored_data(home: Path) -> bool:
    """Whether there is a store, or a restore of one that was interrupted."""
    path = Paths(home).db
    try:
        return closed_store(path, chosen_store()).exists() or (home / PLAN_FILE).exists()
    except PermissionError:
        raise HoldfastError(
            "{path} cannot be read by this user. Run this command as the user who runs the "
            "gateway.",
            path=path,
        ) from None


def _offline_config(home: Path) -> tuple[Config, Iterable[Secret]]:
    """A configuration in which only what applies to stored data is set, and the secrets to redact.
    A broken configuration hides no data."""
    known_secrets: Iterable[Secret] = ()
    memory = Settings().memory
    with suppress(ConfigError):
        config = load(home, tolerant=True)
        memory, known_secrets = config.settings.memory, config.secrets.values()
    settings = Settings(
        memory=msgspec.structs.replace(memory, providers=Settings().memory.providers),
        model=ModelSettings(provider=Provider.DEMO),
    )
    offline = Config(
        home=home,
        settings=settings,
        secrets={},
        warnings=(),
        signature="",
        origins={},
        environ=process_environment(),
    )
    return offline, known_secrets


async def _refuse(*_args: object) -> None:
    raise HoldfastError("No gateway is running. Start it with `holdfast run`.")
