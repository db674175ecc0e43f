"""The model pool: one set of connections for every agent, and the leases on it."""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING

from holdfast.core.model import ModelEvent, ModelRequest
from holdfast.core.ports import ModelClient
from holdfast.core.settings import ApiMode, Provider
from holdfast.models import faults
from holdfast.models.codec import Codec, codec_for
from holdfast.models.demo import DemoModel
from holdfast.models.patience import Patience, Sleep
from holdfast.models.retry import Backoff, with_retries
from holdfast.models.target import ModelTarget

if TYPE_CHECKING:
    from holdfast.models.transport import Transport


class ModelPool:
    """Owns the connections, the codecs, and every call that runs. Open while its context is."""

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
        self._running: set[Patience] = set()
        self._transport: Transport | None = None
        self._opening = asyncio.Lock()
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
        for call in tuple(self._running):
            call.end()
        async with self._opening:
            if self._transport is not None:
                await self._transport.close()

    def lease(self, target: ModelTarget) -> ModelClient:
        """A client for this target: no connection, no session, a few hundred bytes.

        Raises `BadTarget` for an API mode that is not supported.
        """
        if target.provider is Provider.DEMO:
            return DemoModel(target, sleep=self._sleep)
        return Lease(self, target, codec=self._codec(target.api_mode))

    def _codec(self, mode: ApiMode) -> Codec:
        if mode not in self._codecs:
            self._codecs[mode] = codec_for(mode)
        return self._codecs[mode]

    async def call(
        self, request: ModelRequest, *, target: ModelTarget, codec: Codec, patience: Patience
    ) -> AsyncGenerator[ModelEvent, None]:
        """One call of a lease, with its retries."""
        if self._closed:
            raise faults.ended(target)
        self._running.add(patience)
        try:
            transport = self._transport or await self._opened()
            address = transport.address(target, codec)

            def attempt() -> AsyncGenerator[ModelEvent, None]:
                return transport.attempt(
                    address, codec=codec, request=request, target=target, patience=patience
                )

            backoff = Backoff(retries=target.retries)
            async with aclosing(
                with_retries(attempt, backoff=backoff, waiting=patience, jitter=self._jitter)
            ) as events:
                async for event in events:
                    yield event
        finally:
            self._running.discard(patience)

    def patience(self, target: ModelTarget) -> Patience:
        return Patience(target, sleep=self._sleep)

    async def _opened(self) -> "Transport":
        async with self._opening:
            if self._transport is None:
                make = await asyncio.to_thread(_transport_class)
                self._transport = make(now=self._now)
            return self._transport


class Lease:
    """A client of the pool, held by one agent. Owns the calls it makes."""

    __slots__ = ("_codec", "_pool", "_released", "_running", "_target", "name")

    def __init__(self, pool: ModelPool, target: ModelTarget, *, codec: Codec) -> None:
        self._pool = pool
        self._target = target
        self._codec = codec
        self._running: set[Patience] = set()
        self._released = False
        self.name = target.name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._released:
            raise faults.ended(self._target)
        patience = self._pool.patience(self._target)
        self._running.add(patience)
        try:
            async with aclosing(
                self._pool.call(request, target=self._target, codec=self._codec, patience=patience)
            ) as events:
                async for event in events:
                    yield event
        finally:
            self._running.discard(patience)

    def release(self) -> None:
        """Ends the calls that run; each raises `ModelFailed`. Idempotent."""
        self._released = True
        for patience in tuple(self._running):
            patience.end()


def _transport_class() -> "type[Transport]":
    from holdfast.models.transport import Transport  # noqa: PLC0415 - aiohttp, for real calls only

    return Transport
