"""Accounts on the machine itself: what the owner of the home asks over the control socket."""

from collections.abc import Callable

import msgspec
from aiohttp import web

from holdfast.core.ops.account import NoSuchAccount
from holdfast.core.ports.protocols import Clock
from holdfast.gateway.accounts.accounts import Accounts, NotPausable
from holdfast.server.api.views.account_views import account_list, account_view


class AccountHandlers:
    """Owns nothing: `Accounts` does what is asked, once there are any; `ready` says whether."""

    def __init__(self, accounts: Accounts, *, clock: Clock, ready: Callable[[], bool]) -> None:
        self._accounts = accounts
        self._clock = clock
        self._ready = ready

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/platforms", self._list),
            web.post("/platforms/{name}/{account}/{do:pause|resume|check}", self._run_action),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        return _accounts_json(
            account_list(self._ready_accounts().statuses(), now=self._clock.now())
        )

    async def _run_action(self, request: web.Request) -> web.Response:
        accounts, part = self._ready_accounts(), request.match_info
        ways = {"pause": accounts.pause, "resume": accounts.resume, "check": accounts.check}
        try:
            facts = await ways[part["do"]](part["name"], part["account"])
        except NoSuchAccount as error:
            raise web.HTTPNotFound(text=str(error)) from None
        except NotPausable as error:
            raise web.HTTPConflict(text=str(error)) from None
        return _accounts_json(account_view(facts, now=self._clock.now()))

    def _ready_accounts(self) -> Accounts:
        if not self._ready():
            raise web.HTTPServiceUnavailable(text="the gateway is starting or stopping; try again")
        return self._accounts


def _accounts_json(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")
