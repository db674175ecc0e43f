"""The model pool: one set of connections for every agent, and the clients that lease it."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.settings import ApiMode, Provider
from holdfast.core.ports.runtime import ModelClient
from holdfast.core.turns.model import ModelEvent, ModelRequest, model_profile
from holdfast.models import errors
from holdfast.models.codecs.codec import CODECS, Codec
from holdfast.models.demo import DemoModel
from holdfast.models.local.server import LocalServer, find_model_file, fit_request
from holdfast.models.retry import CallDeadline, ModelReply, ModelRetryPolicy, Sleep, with_retries
from holdfast.models.target import ModelTarget
from holdfast.system.tls import prepare_trust

if TYPE_CHECKING:
    from holdfast.models.transport import HttpTransport


class ModelPool:
    """Owns the connections, the codecs, and every call that runs. Open while its context is.

    `sleep` and `jitter` are how a retry waits, `now` is what a date in `Retry-After` is
    compared with.
    """

    def __init__(
        self,
        *,
        sleep: Sleep = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._sleep = sleep
        self._jitter = jitter
        self._now = now
        self._codecs: dict[ApiMode, Codec] = {}
        self._running: set[CallDeadline] = set()
        self._local_servers: dict[str, LocalServer] = {}
        self._transport: HttpTransport | None = None
        self._open_lock = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> "ModelPool":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends every running call, then the connections."""
        self._closed = True
        for deadline in tuple(self._running):
            deadline.cancel()
        async with self._open_lock:
            if self._transport is not None:
                await self._transport.close()
        for server in self._local_servers.values():
            await server.close()

    def lease(self, target: ModelTarget) -> ModelClient:
        """A client for this target: no connection, no session, a few hundred bytes.

        Raises `InvalidTarget` where the small model of our own is wanted and is not installed.
        """
        if target.provider is Provider.DEMO:
            return DemoModel(target, sleep=self._sleep)
        server = self._local_server(target) if target.embedded else None
        return PooledClient(self, target, codec=self._codec(target.api_mode), local_server=server)

    def call(
        self, lease: "PooledClient", request: ModelRequest
    ) -> AsyncGenerator[ModelEvent, None]:
        """One call of a lease, with its retries; what `PooledClient.stream` returns."""
        deadline = CallDeadline(lease.target, sleep=self._sleep)
        return with_retries(
            partial(self._open_reply, lease, request, deadline),
            policy=ModelRetryPolicy(retries=lease.target.retries),
            waiter=deadline,
            jitter=self._jitter,
        )

    async def _open_reply(
        self, lease: "PooledClient", request: ModelRequest, deadline: CallDeadline
    ) -> ModelReply:
        """One attempt. A local server is started first; its address is asked for each time: one
        that died and was started again listens elsewhere."""
        target = lease.target
        if self._closed or lease.released:
            deadline.cancel()  # there is no time left for a retry
            raise errors.released_error(target)
        deadline.begin(self._running, lease.running)
        transport = self._transport or await self._open_transport()
        if target.base_url.startswith("https:"):
            await prepare_trust()
        if lease.local_server is not None:
            address = await deadline.wait(
                lease.local_server.base_url,
                0,
                stage=errors.TimeoutStage.START,
                setting="whole_timeout",
            )
            target = msgspec.structs.replace(target, base_url=address)
            request = fit_request(request, model_profile(target.name))
        return await transport.open(request, codec=lease.codec, target=target, deadline=deadline)

    async def list_models(self, target: ModelTarget) -> tuple[str, ...]:
        """The names of the models that the target's server lists. Raises `ModelFailed`."""
        if target.provider is Provider.DEMO or target.embedded:
            return (target.name,)
        deadline = CallDeadline(target, sleep=self._sleep)
        deadline.begin(self._running)
        try:
            transport = self._transport or await self._open_transport()
            codec = self._codec(target.api_mode)
            return await transport.list_models(codec=codec, target=target, deadline=deadline)
        finally:
            deadline.finish()

    def _codec(self, mode: ApiMode) -> Codec:
        if mode not in self._codecs:
            self._codecs[mode] = CODECS[mode]()
        return self._codecs[mode]

    def _local_server(self, target: ModelTarget) -> LocalServer:
        if target.name not in self._local_servers:
            self._local_servers[target.name] = LocalServer(
                find_model_file(target.name), model_profile(target.name)
            )
        return self._local_servers[target.name]

    async def _open_transport(self) -> "HttpTransport":
        async with self._open_lock:
            if self._transport is None:
                make = await asyncio.to_thread(_transport_class)
                self._transport = make(now=self._now)
            return self._transport


class PooledClient:
    """A client of the pool, held by one agent. Owns the calls it makes."""

    __slots__ = ("_pool", "codec", "local_server", "name", "released", "running", "target")

    def __init__(
        self,
        pool: ModelPool,
        target: ModelTarget,
        *,
        codec: Codec,
        local_server: LocalServer | None,
    ) -> None:
        self._pool = pool
        self.target = target
        self.codec = codec
        self.local_server = local_server  # started first; None: the server is run by others
        self.running: set[CallDeadline] = set()
        self.released = False
        self.name = target.name

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        return self._pool.call(self, request)

    def release(self) -> None:
        """Ends the calls that run; each raises `ModelFailed`. Idempotent."""
        self.released = True
        for deadline in tuple(self.running):
            deadline.cancel()


def _transport_class() -> "type[HttpTransport]":
    from holdfast.models.transport import HttpTransport  # noqa: PLC0415 - aiohttp, for real calls only

    return HttpTransport
