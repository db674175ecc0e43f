"""The composition root: config in, a running gateway out."""

import asyncio
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.config import Config
from holdfast.control.control_socket import ControlSocket
from holdfast.control.heartbeat import Heartbeat
from holdfast.control.listener import HttpListener
from holdfast.control.metrics import Metrics
from holdfast.control.status_thread import StatusThread
from holdfast.core.errors import HoldfastError
from holdfast.core.ports import ModelClient, Platform
from holdfast.core.secret import Secret
from holdfast.core.settings import Provider, SandboxMode
from holdfast.gateway.gateway import Gateway, Parts
from holdfast.gateway.redaction import Redaction
from holdfast.models.pool import ModelPool
from holdfast.models.target import BadTarget, target_of
from holdfast.platforms.api.platform import ApiPlatform
from holdfast.runner.runners import Runners
from holdfast.service import exits
from holdfast.service.clock import SystemClock
from holdfast.service.crashing import crash_at
from holdfast.service.ids import Ids
from holdfast.service.lock import HomeInUse, HomeLock
from holdfast.service.logs import logging_to
from holdfast.service.paths import Paths
from holdfast.service.tokens import api_token
from holdfast.store.sqlite import SqliteStore
from holdfast.tools.registry import Registry, default_tools


def run(config: Config) -> int:
    """Run a gateway until it is told to stop; the exit code says how that went."""
    paths, clock = Paths(config.home), SystemClock()
    try:
        with HomeLock(config.home) as lock:
            token = api_token(paths, configured=config.secret("platforms.api.token"))
            redact = Redaction([*config.secrets.values(), token])
            with (
                logging_to(paths.log_file, config.settings.log, redact=redact),
                StatusThread(paths, clock=clock) as status,
                asyncio.Runner(loop_factory=_loop_factory()) as runner,
            ):
                runner.run(Process(config, lock=lock, status=status, token=token).serve())
        return exits.OK
    except HomeInUse as error:
        print(error, file=sys.stderr)
        return exits.HOME_IN_USE
    except BadTarget as error:
        print(error, file=sys.stderr)
        return exits.CONFIG_EXIT
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
        self._state = "starting"
        self._address = ""
        self._snapshot: Callable[[], dict[str, Any]] = dict

    async def serve(self) -> None:
        """Start everything, in order, serve until a signal, and stop it in the reverse order."""
        config, clock, new_id = self._config, self._clock, Ids(clock=self._clock)
        loop = asyncio.get_running_loop()
        with Heartbeat(loop, clock=clock) as heartbeat, _stop_signal(loop) as stop:
            self._status.watch(heartbeat)
            self._enter("opening the store")
            async with AsyncExitStack() as stack:
                crash = crash_at(config.crash_at)
                store = await stack.enter_async_context(SqliteStore(self._paths.db, crash=crash))
                pool = await stack.enter_async_context(ModelPool())
                runners = Runners(
                    config.home,
                    config.settings.runner,
                    clock=clock,
                    on_started=lambda row: store.save_runner(row),
                    on_ended=lambda session_id: store.end_runner(session_id),
                )
                if config.settings.runner.sandbox is SandboxMode.REQUIRED:
                    await runners.probe()
                api = ApiPlatform(self._token, library=store, new_id=new_id)
                registry = Registry(default_tools(config.settings.runner))
                lease, model_name = self._models(pool)
                gateway = Gateway(
                    Parts(
                        settings=config.settings,
                        store=store,
                        platforms=[api, *self._platforms()],
                        runners=runners,
                        toolbox=registry.for_toolsets(config.settings.agent.toolsets),
                        lease=lease,
                        model_name=model_name,
                        api_key=config.secret("model.api_key"),
                        secrets=[*config.secrets.values(), self._token],
                        clock=clock,
                        new_id=new_id,
                        crash=crash,
                        progress=self._enter,
                    )
                )
                self._snapshot = gateway.snapshot
                listener = await stack.enter_async_context(
                    HttpListener(
                        config.settings.gateway,
                        routes=api.routes(),
                        metrics=Metrics(
                            store, snapshot=gateway.snapshot, lag=lambda: heartbeat.lag
                        ),
                        token=self._token,
                        ready=lambda: self._state == "running",
                    )
                )
                self._address = listener.address
                self._lock.announce(listener.address)
                await stack.enter_async_context(
                    ControlSocket(self._paths, library=store, snapshot=self._facts)
                )
                await stack.enter_async_context(gateway)
                self._greet()
                await stop.wait()
        self._enter("stopped")

    def _models(self, pool: ModelPool) -> tuple[Callable[[str | None], ModelClient], str]:
        settings = self._config.settings.model
        target = target_of(settings, api_key=self._config.secret("model.api_key"))

        def lease(override: str | None) -> ModelClient:
            return pool.lease(msgspec.structs.replace(target, name=override or target.name))

        return lease, target.name

    def _platforms(self) -> Iterator[Platform]:
        simulated = self._config.settings.platforms.get("simulated")
        if simulated is not None and simulated.enabled and simulated.base_url:
            from holdfast.platforms.simulated.remote import (  # noqa: PLC0415 - few open this door
                RemoteSimulatedPlatform,
            )

            yield RemoteSimulatedPlatform(simulated.base_url)

    def _enter(self, state: str) -> None:
        self._state = state
        self._status.publish(self._facts())

    def _facts(self) -> dict[str, Any]:
        return {"state": self._state, "address": self._address, **self._snapshot()}

    def _greet(self) -> None:
        demo = self._config.settings.model.provider is Provider.DEMO
        lines = [
            f"Holdfast {__version__} listens on {self._address}",
            "",
            "Talk to it:",
            f"  curl {self._address}/v1/chat/completions \\",
            '    -H "Authorization: Bearer $(holdfast token)" \\',
            '    -H "X-Holdfast-Session: me" \\',
            '    -d \'{"messages": [{"role": "user", "content": "run uname -a"}]}\'',
            "",
            "See what it does:  holdfast status      Stop it:  Ctrl-C",
        ]
        if demo:
            lines += ["", "No model is set up yet: a demo answers. Ask it how to plug one in."]
        print("\n".join(lines), flush=True)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed (`holdfast[fast]`), asyncio's own loop otherwise."""
    if find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


@contextmanager
def _stop_signal(loop: asyncio.AbstractEventLoop) -> Iterator[asyncio.Event]:
    """An event that SIGTERM and SIGINT set; a second signal ends the process at once."""
    stop = asyncio.Event()

    def asked() -> None:
        stop.set()
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)

    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, asked)
    try:
        yield stop
    finally:
        for each in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(each)
