"""Webhook routes: accounts come and go while the listener stays open."""

from collections.abc import Sequence

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.server.webhooks import WebhookRoutes
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
    application.add_routes(WebhookRoutes(platforms, excluded=api).routes())
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
