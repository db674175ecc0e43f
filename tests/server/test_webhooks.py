"""Webhook routes: accounts come and go while the listener stays open."""

from collections.abc import Sequence

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from tests.support.settable_clock import SettableClock

from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.server.auth.rate_limit import BURST, LoginRateLimiter
from holdfast.server.http_listener import Handler
from holdfast.server.webhooks import WebhookRoutes
from holdfast.system.clock import SystemClock
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


class WebhookAccount(SimulatedPlatform):
    """An account with a webhook route that returns a fixed reply."""

    def __init__(self, account: str, path: str, reply: str) -> None:
        super().__init__(ChatService(), account=account)
        self._path = path
        self._reply = reply

    def routes(self) -> Sequence[web.RouteDef]:
        return [web.post(self._path, self._post)]

    async def _post(self, request: web.Request) -> web.Response:
        return web.Response(text=self._reply)

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


async def test_a_webhook_reaches_the_current_account_of_its_path() -> None:
    """A replaced account gets no more requests, a new one is found, and a removed one is not; this
    includes routes outside the hooks prefix."""
    api = WebhookAccount("default", "/v1/x", "the api")
    platforms = [
        api,
        WebhookAccount("a", "/hooks/s/a", "first"),
        WebhookAccount("b", "/other/{id}", "other"),
    ]
    application = web.Application()
    application.add_routes(
        WebhookRoutes(
            platforms, excluded=api, limiter=LoginRateLimiter(clock=SystemClock())
        ).routes()
    )
    async with TestClient(TestServer(application)) as http:

        async def post(path: str) -> str:
            async with http.post(path) as response:
                return await response.text() if response.status == 200 else str(response.status)

        assert [await post(path) for path in ("/hooks/s/a", "/other/1", "/v1/x")] == [
            *("first", "other", "404")
        ]
        platforms[1:] = [
            WebhookAccount("a", "/hooks/s/a", "second"),
            WebhookAccount("c", "/hooks/s/c", "later"),
        ]
        assert [await post(path) for path in ("/hooks/s/a", "/hooks/s/c", "/other/1")] == [
            *("second", "later", "404")
        ]
        async with http.get("/hooks/s/a") as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
        platforms[1:] = []
        assert await post("/hooks/s/a") == "404"


class TokenAccount(SimulatedPlatform):
    """An account whose hook needs a bearer token, and that counts its posts."""

    def __init__(self) -> None:
        super().__init__(ChatService(), account="a")
        self.posts = 0

    def routes(self) -> Sequence[web.RouteDef]:
        return [web.post("/hooks/s/a", self._post)]

    async def _post(self, request: web.Request) -> web.Response:
        self.posts += 1
        right = request.headers.get("Authorization") == "Bearer right"
        return web.Response(status=202 if right else 401)

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


@pytest.mark.parametrize("remote", ["203.0.113.5", "127.0.0.1"])
async def test_wrong_tokens_of_hooks_are_limited_like_those_of_the_api(remote: str) -> None:
    """The attack: guesses at the token of a hook. On this machine the right one is never locked
    out; a wrong signature is no guess, and is not counted."""

    @web.middleware
    async def from_there(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await handler(request.clone(remote=remote))

    account = TokenAccount()
    api = WebhookAccount("default", "/v1/x", "the api")
    application = web.Application(middlewares=[from_there])
    limiter = LoginRateLimiter(clock=SettableClock())
    routes = WebhookRoutes([api, account], excluded=api, limiter=limiter).routes()
    application.add_routes(routes)
    async with TestClient(TestServer(application)) as http:

        async def post(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with http.post("/hooks/s/a", headers=headers) as response:
                return response.status

        assert [await post("") for _ in range(BURST * 2)] == [401] * BURST * 2
        assert [await post("stale") for _ in range(BURST * 2)] == [401] * BURST * 2
        guesses = [await post(f"guess {n}") for n in range(BURST * 2)]
        assert guesses == [401] * (BURST - 1) + [429] * (BURST + 1)
        before = account.posts
        assert await post("right") == (202 if remote == "127.0.0.1" else 429)
        assert account.posts - before == (1 if remote == "127.0.0.1" else 0)
