"""What platforms are posted to, while accounts come and go and the listener stands."""

from collections.abc import Sequence

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.server.webhooks import WebhookRoutes
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService


class Posted(SimulatedPlatform):
    """An account that is posted to, and says by which of its lives."""

    def __init__(self, account: str, path: str, says: str) -> None:
        super().__init__(ChatService(), account=account)
        self._path = path
        self._says = says

    def routes(self) -> Sequence[web.RouteDef]:
        return [web.post(self._path, self._post)]

    async def _post(self, request: web.Request) -> web.Response:
        return web.Response(text=self._says)

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("nothing is sent here")


async def test_a_post_finds_the_account_that_stands_there_now() -> None:
    """One that was replaced is not asked any more, one that came later is found, one that is gone
    is not; and what a door wanted elsewhere follows it, too."""
    api = Posted("default", "/v1/x", "the api")
    doors = [api, Posted("a", "/hooks/s/a", "first"), Posted("b", "/other/{id}", "other")]
    application = web.Application()
    application.add_routes(WebhookRoutes(doors, excluded=api).routes())
    async with TestClient(TestServer(application)) as http:

        async def post(path: str) -> str:
            async with http.post(path) as response:
                return await response.text() if response.status == 200 else str(response.status)

        assert [await post(path) for path in ("/hooks/s/a", "/other/1", "/v1/x")] == [
            *("first", "other", "404")
        ]
        doors[1:] = [Posted("a", "/hooks/s/a", "second"), Posted("c", "/hooks/s/c", "later")]
        assert [await post(path) for path in ("/hooks/s/a", "/hooks/s/c", "/other/1")] == [
            *("second", "later", "404")
        ]
        async with http.get("/hooks/s/a") as response:
            assert (response.status, response.headers["Allow"]) == (405, "POST")
        doors[1:] = []
        assert await post("/hooks/s/a") == "404"
