"""Behind a proxy: who asks, under which name and scheme, and which proxies are believed."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from holdfast.core.config.settings import GatewaySettings, Settings
from holdfast.core.ops.status import GatewaySnapshot, StatusReport
from holdfast.core.secrets import Secret
from holdfast.gateway.live.counters import Counters
from holdfast.server.auth.login import BrowserLogin, LoginRoutes
from holdfast.server.auth.rate_limit import BURST, REFILL_SECONDS
from holdfast.server.auth.viewers import OWNER, ViewerTokens
from holdfast.server.http_listener import HttpListener
from holdfast.server.metrics import Metrics
from holdfast.store.sqlite.store import SqliteStore

NAME = "bot.example.org"
CLIENT = "203.0.113.5"


class HeldClock:
    at = 1_000_000.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class House:
    """A listener of this process, its login, and a route that tells what it makes of a request."""

    def __init__(self, home: Path, *trusted: str) -> None:
        self.clock = HeldClock()
        viewers = ViewerTokens(home / "viewers.json", clock=self.clock)
        self.login = BrowserLogin(Secret("t"), viewers=viewers, clock=self.clock)
        settings = GatewaySettings(port=0, allowed_hosts=(NAME,), trusted_proxy=trusted)
        self.listener = HttpListener(
            settings,
            routes=[
                web.get("/seen", _seen),
                web.get("/v1/guarded", self._guarded),
                *LoginRoutes(self.login).routes(),
            ],
            metrics=_metrics(home),
            login=self.login,
            ready=lambda: True,
            port_chosen=True,
        )

    @asynccontextmanager
    async def asked(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with self.listener, aiohttp.ClientSession(self.listener.address) as http:
            yield http

    async def _guarded(self, request: web.Request) -> web.Response:
        return web.Response(status=401 if self.login.token_principal(request) is None else 200)


async def _seen(request: web.Request) -> web.Response:
    said = {"remote": request.remote, "scheme": request.scheme, "host": request.host}
    return web.json_response(said)


def _metrics(home: Path) -> Metrics:
    async def fresh() -> GatewaySnapshot:
        raise AssertionError("nobody asks for figures here")

    def document(snapshot: GatewaySnapshot) -> StatusReport:
        raise AssertionError("nobody asks for figures here")

    store = SqliteStore(home / "state.db")
    return Metrics(
        store, fresh_snapshot=fresh, status_report=document, totals=Counters().totals, prices=dict
    )


Open = Callable[..., House]


@pytest.fixture
def house(tmp_path: Path) -> Open:
    return lambda *trusted: House(tmp_path, *trusted)


async def seen(http: aiohttp.ClientSession, **headers: str) -> Any:
    given = {f"X-Forwarded-{name}": value for name, value in headers.items()}
    async with http.get("/seen", headers=given) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_without_a_trusted_proxy_its_headers_are_ignored_and_told_of_once(
    house: Open, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with house("192.0.2.0/24").asked() as http:
            for _ in range(3):
                found = await seen(http, For=CLIENT, Proto="https", Host=NAME)
                assert (found["remote"], found["scheme"]) == ("127.0.0.1", "http")
                assert found["host"].startswith("127.0.0.1")
    (told,) = [r for r in caplog.records if r.action == "proxy_not_trusted"]  # type: ignore[attr-defined]
    assert "gateway.trusted_proxy" in told.getMessage()


async def test_a_trusted_proxy_says_who_asks_over_what_and_for_which_name(house: Open) -> None:
    async with house("127.0.0.1").asked() as http:
        found = await seen(http, For=CLIENT, Proto="https", Host=NAME)
        assert found == {"remote": CLIENT, "scheme": "https", "host": NAME}
        assert (await seen(http))["remote"] == "127.0.0.1"
        assert (await seen(http, For="[2001:db8::1]:4711"))["remote"] == "2001:db8::1"


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (f"10.9.9.9, 198.51.100.1, {CLIENT}", CLIENT),  # what a client writes first is its own word
        (f"198.51.100.1, {CLIENT}, 10.0.0.2", CLIENT),  # 10.0.0.2 is a proxy of ours too
        (f"{CLIENT}, 10.0.0.3, 10.0.0.2", CLIENT),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a machine of ours that asks for itself
        (f"{CLIENT}, nonsense, 10.0.0.2", "10.0.0.2"),  # nothing left of nonsense is believed
        ("nonsense", "127.0.0.1"),
        (f"{CLIENT}:50123", CLIENT),
    ],
)
async def test_the_client_is_the_right_most_that_is_no_proxy_of_ours(
    house: Open, chain: str, client: str
) -> None:
    async with house("127.0.0.1", "10.0.0.0/24").asked() as http:
        assert (await seen(http, For=chain))["remote"] == client


async def test_only_a_scheme_of_the_web_is_believed(house: Open) -> None:
    async with house("127.0.0.1").asked() as http:
        assert (await seen(http, For=CLIENT, Proto="javascript"))["scheme"] == "http"
        spoofed = await seen(http, For=f"1.2.3.4, {CLIENT}", Proto="https, http")
        assert spoofed["scheme"] == "http"


async def test_a_name_that_is_not_ours_is_refused_on_either_side_of_the_proxy(house: Open) -> None:
    """DNS rebinding: neither may be foreign, what the proxy was asked for or what it asks for."""
    async with house("127.0.0.1").asked() as http:
        for outer, inner in (("evil.example", NAME), (NAME, "evil.example")):
            headers = {"X-Forwarded-For": CLIENT, "X-Forwarded-Host": outer, "Host": inner}
            async with http.get("/seen", headers=headers) as response:
                assert response.status == 421


async def test_the_cookie_is_secure_where_the_outer_scheme_is_https(house: Open) -> None:
    here = house("127.0.0.1")
    async with here.asked() as http:
        for scheme, secure in (("https", True), ("http", False)):
            headers = {"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": scheme}
            link = here.login.create_link("").removeprefix(here.listener.address)
            async with http.get(link, headers=headers, allow_redirects=False) as response:
                assert response.status == 303
                assert ("; Secure" in response.headers["Set-Cookie"]) is secure


async def test_a_page_of_elsewhere_changes_nothing_behind_a_proxy(house: Open) -> None:
    """CSRF: the page's origin is held against the name that the browser asked for."""
    async with house("127.0.0.1").asked() as http:
        proxied = {
            "X-Forwarded-For": CLIENT,
            "X-Forwarded-Host": NAME,
            "X-Forwarded-Proto": "https",
        }
        for origin, status in ((f"https://{NAME}", 204), ("https://evil.example", 403)):
            headers = {**proxied, "Origin": origin}
            async with http.post("/logout", headers=headers) as response:
                assert response.status == status


async def test_guesses_hold_up_the_client_behind_the_proxy_and_nobody_else(house: Open) -> None:
    here = house("127.0.0.1")

    async def status(client: str, token: str) -> tuple[int, str | None]:
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": client}
        async with http.get("/v1/guarded", headers=headers) as response:
            return response.status, response.headers.get("Retry-After")

    async with here.asked() as http:
        for n in range(BURST):
            assert await status(CLIENT, f"guess{n}") == (401, None)
        assert await status(CLIENT, "t") == (429, "6")  # not even told of the right one
        assert await status("203.0.113.99", "t") == (200, None)
        here.clock.at += 6
        assert await status(CLIENT, "t") == (200, None)


async def test_a_guess_counts_wherever_it_is_tried_and_whatever_is_answered(house: Open) -> None:
    """What is not there answers 404 and a cookie answers 200: neither makes the token right."""
    here = house("127.0.0.1")
    cookie = f"{here.login.cookie_name}={here.login.make_cookie(OWNER)}"
    async with here.asked() as http:
        for n in range(BURST):
            headers = {"Authorization": f"Bearer guess{n}", "X-Forwarded-For": CLIENT}
            path = "/v1/nowhere" if n % 2 else "/login"
            async with http.get(path, headers={**headers, "Cookie": cookie}) as response:
                assert response.status != 429
        assert here.login.token_limiter.blocked_for(CLIENT) == REFILL_SECONDS


async def test_other_names_and_proxies_hold_as_soon_as_they_are_in_force(house: Open) -> None:
    """Also for connections that stand: nobody has to restart to shut a proxy out."""
    here = house("127.0.0.1")

    async def seen(name: str) -> tuple[int, str]:
        headers = {"Host": name, "X-Forwarded-For": CLIENT}
        async with http.get("/seen", headers=headers) as response:
            told = await response.json() if response.status == 200 else {}
            return response.status, told.get("remote", "")

    async with here.asked() as http:
        assert await seen(NAME) == (200, CLIENT)
        other = GatewaySettings(allowed_hosts=("other.example.org",))
        here.listener.apply_settings(Settings(gateway=other))
        assert await seen("other.example.org") == (200, "127.0.0.1")
        assert (await seen(NAME))[0] == 421
