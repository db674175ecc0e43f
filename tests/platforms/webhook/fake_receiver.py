"""A fake receiver of webhooks on a real listener: it verifies signatures, accepts each key once,
and can fail."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from tests.platforms.connection_faults import ConnectionFault

from holdfast.core.ports.runtime import Clock
from holdfast.core.secrets import Secret
from holdfast.platforms.webhook.plugin import HookSettings, SignatureScheme
from holdfast.platforms.webhook.signatures import (
    InvalidSignature,
    SignatureExpired,
    SignatureVerifier,
)

Json = dict[str, Any]


class FakeReceiver:
    """Owns what it was posted. `faults` are what becomes of the next posts: a status, with the
    headers that go with it, or a break."""

    def __init__(self, secret: str, *, clock: Clock) -> None:
        self.secret = secret
        self.messages: list[Json] = []  # each key once
        self.pings: list[Json] = []
        self.headers: list[dict[str, str]] = []  # of every message that was posted
        self.faults: list[tuple[int, dict[str, str]] | ConnectionFault] = []
        self.faults_of_pings: list[int] = []
        self.ignores_keys = False  # takes a key as often as it comes
        self._keys: set[str] = set()
        self._clock = clock

    async def post(self, request: web.Request) -> web.Response:
        body = await request.read()
        seal = SignatureVerifier(
            HookSettings(secret="env:X", scheme=SignatureScheme.STANDARD),
            Secret(self.secret),
            clock=self._clock,
        )
        try:
            seal.verify(request.headers, body)
        except (InvalidSignature, SignatureExpired):
            return web.Response(status=401)
        posted = json.loads(body)
        if posted["type"] == "ping":
            self.pings.append(posted)
            return web.Response(status=self.faults_of_pings.pop() if self.faults_of_pings else 204)
        self.headers.append(dict(request.headers))
        fault = self.faults.pop(0) if self.faults else None
        if isinstance(fault, tuple):
            return web.Response(status=fault[0], headers=fault[1])
        if fault is not ConnectionFault.RESET_BEFORE:
            self._take(request.headers["Idempotency-Key"], posted)
        if fault is not None:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=204)

    def _take(self, key: str, posted: Json) -> None:
        if self.ignores_keys or key not in self._keys:
            self.messages.append(posted)
        self._keys.add(key)

    def texts(self) -> list[str]:
        return [each["text"] for each in self.messages]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        async with listening([web.post("/inbox", self.post)]) as address:
            yield f"{address}/inbox"


@asynccontextmanager
async def listening(routes: Any) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
