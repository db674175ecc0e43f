"""Behind a reverse proxy: client address, host, scheme, and which proxies are trusted."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.support.logins import make_login
from tests.support.settable_clock import SettableClock

from holdfast.core.config.settings import GatewaySettings, Settings
from holdfast.server.auth.login import LoginRoutes
from holdfast.server.auth.rate_limit import BURST, REFILL_SECONDS
from holdfast.server.auth.tokens import OWNER
from holdfast.server.http_listener import HttpListener, TrustedProxies

PUBLIC_HOST = "bot.example.org"
CLIENT = "203.0.113.5"


class ProxiedListener:
    """A listener in this process with its login, and a route that echoes how it sees a request."""

    def __init__(self, home: Path, *trusted: str) -> None:
        self.clock = SettableClock()
        self.login = make_login(home, clock=self.clock)
        settings = GatewaySettings(port=0, allowed_hosts=(PUBLIC_HOST,), trusted_proxy=trusted)
        self.listener = HttpListener(
            settings,
            routes=[
                web.get("/seen", _echo_request),
                web.get("/v1/guarded", self._guarded),
                *LoginRoutes(self.login).routes(),
            ],
            metrics=no_metrics,
            login=self.login,
            may_read=lambda principal: True,
            ready=lambda: True,
            port_chosen=True,
        )

    @asynccontextmanager
    async def client(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with self.listener, aiohttp.ClientSession(self.listener.address) as http:
            yield http

    async def _guarded(self, request: web.Request) -> web.Response:
        return web.Response(status=401 if self.login.token_principal(request) is None else 200)


async def _echo_request(request: web.Request) -> web.Response:
    request_view = {"remote": request.remote, "scheme": request.scheme, "host": request.host}
    return web.json_response(request_view)


async def no_metrics() -> str:
    raise AssertionError("no metrics are requested here")


OpenProxiedListener = Callable[..., ProxiedListener]


@pytest.fixture
def open_listener(tmp_path: Path) -> OpenProxiedListener:
    return lambda *trusted: ProxiedListener(tmp_path, *trusted)


async def echoed_request(http: aiohttp.ClientSession, **headers: str) -> Any:
    given = {f"X-Forwarded-{name}": value for name, value in headers.items()}
    async with http.get("/seen", headers=given) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def test_headers_of_an_untrusted_proxy_are_ignored_and_logged_once(
    open_listener: OpenProxiedListener, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_listener("192.0.2.0/24").client() as http:
            for _ in range(3):
                found = await echoed_request(http, For=CLIENT, Proto="https", Host=PUBLIC_HOST)
                assert (found["remote"], found["scheme"]) == ("127.0.0.1", "http")
                assert found["host"].startswith("127.0.0.1")
    (warning,) = [r for r in caplog.records if r.action == "proxy_not_trusted"]  # type: ignore[attr-defined]
    assert "gateway.trusted_proxy" in warning.getMessage()


async def test_a_trusted_proxy_sets_client_scheme_and_host(
    open_listener: OpenProxiedListener,
) -> None:
    async with open_listener("127.0.0.1").client() as http:
        found = await echoed_request(http, For=CLIENT, Proto="https", Host=PUBLIC_HOST)
        assert found == {"remote": CLIENT, "scheme": "https", "host": PUBLIC_HOST}
        assert (await echoed_request(http))["remote"] == "127.0.0.1"
        assert (await echoed_request(http, For="[2001:db8::1]:4711"))["remote"] == "2001:db8::1"


@pytest.mark.parametrize(
    ("chain", "client"),
    [
        (f"10.9.9.9, 198.51.100.1, {CLIENT}", CLIENT),  # a client can forge what comes first
        (f"198.51.100.1, {CLIENT}, 10.0.0.2", CLIENT),  # 10.0.0.2 is a proxy of ours too
        (f"{CLIENT}, 10.0.0.3, 10.0.0.2", CLIENT),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a proxy that is itself the client
        (
            f"{CLIENT}, nonsense, 10.0.0.2",
            "10.0.0.2",
        ),  # nothing left of an invalid address is trusted
        ("nonsense", "127.0.0.1"),
        (f"{CLIENT}:50123", CLIENT),
    ],
)
async def test_the_client_is_the_rightmost_address_that_is_no_trusted_proxy(
    open_listener: OpenProxiedListener, chain: str, client: str
) -> None:
    async with open_listener("127.0.0.1", "10.0.0.0/24").client() as http:
        assert (await echoed_request(http, For=chain))["remote"] == client


async def test_only_http_and_https_are_accepted_as_schemes(
    open_listener: OpenProxiedListener,
) -> None:
    async with open_listener("127.0.0.1").client() as http:
        assert (await echoed_request(http, For=CLIENT, Proto="javascript"))["scheme"] == "http"
        spoofed = await echoed_request(http, For=f"1.2.3.4, {CLIENT}", Proto="https, http")
        assert spoofed["scheme"] == "http"


async def test_a_foreign_host_name_is_refused_on_either_side_of_the_proxy(
    open_listener: OpenProxiedListener,
) -> None:
    """DNS rebinding: neither the host at the proxy nor the host at the gateway may be foreign."""
    async with open_listener("127.0.0.1").client() as http:
        for outer, inner in (("evil.example", PUBLIC_HOST), (PUBLIC_HOST, "evil.example")):
            headers = {"X-Forwarded-For": CLIENT, "X-Forwarded-Host": outer, "Host": inner}
            async with http.get("/seen", headers=headers) as response:
                assert response.status == 421


async def test_the_cookie_is_secure_where_the_outer_scheme_is_https(
    open_listener: OpenProxiedListener,
) -> None:
    proxied = open_listener("127.0.0.1")
    async with proxied.client() as http:
        for scheme, secure in (("https", True), ("http", False)):
            headers = {"X-Forwarded-For": CLIENT, "X-Forwarded-Proto": scheme}
            link = proxied.login.create_link("").removeprefix(proxied.listener.address)
            async with http.get(link, headers=headers, allow_redirects=False) as response:
                assert response.status == 303
                assert ("; Secure" in response.headers["Set-Cookie"]) is secure


async def test_a_request_of_another_origin_is_refused_behind_a_proxy(
    open_listener: OpenProxiedListener,
) -> None:
    """CSRF: the origin of the page is compared with the host that the browser requested."""
    async with open_listener("127.0.0.1").client() as http:
        proxied = {
            "X-Forwarded-For": CLIENT,
            "X-Forwarded-Host": PUBLIC_HOST,
            "X-Forwarded-Proto": "https",
        }
        for origin, status in ((f"https://{PUBLIC_HOST}", 204), ("https://evil.example", 403)):
            headers = {**proxied, "Origin": origin}
            async with http.post("/logout", headers=headers) as response:
                assert response.status == status


async def test_guesses_block_only_the_client_behind_the_proxy(
    open_listener: OpenProxiedListener,
) -> None:
    proxied = open_listener("127.0.0.1")

    async def status(client: str, token: str) -> tuple[int, str | None]:
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": client}
        async with http.get("/v1/guarded", headers=headers) as response:
            return response.status, response.headers.get("Retry-After")

    async with proxied.client() as http:
        for n in range(BURST):
            assert await status(CLIENT, f"guess{n}") == (401, None)
        assert await status(CLIENT, "t") == (429, "6")  # the right token is not checked either
        assert await status("203.0.113.99", "t") == (200, None)
        proxied.clock.at += 6
        assert await status(CLIENT, "t") == (200, None)


async def test_a_wrong_token_counts_on_every_path_and_with_every_answer(
    open_listener: OpenProxiedListener,
) -> None:
    """Also where the answer is 404, or 200 because of a cookie."""
    proxied = open_listener("127.0.0.1")
    cookie = f"{proxied.login.cookie_name}={proxied.login.make_cookie(OWNER)}"
    async with proxied.client() as http:
        for n in range(BURST):
            headers = {"Authorization": f"Bearer guess{n}", "X-Forwarded-For": CLIENT}
            path = "/v1/nowhere" if n % 2 else "/login"
            async with http.get(path, headers={**headers, "Cookie": cookie}) as response:
                assert response.status != 429
        assert proxied.login.token_limiter.blocked_for(CLIENT) == REFILL_SECONDS


async def test_changed_hosts_and_proxies_apply_to_open_connections(
    open_listener: OpenProxiedListener,
) -> None:
    """No restart is needed to exclude a proxy."""
    proxied = open_listener("127.0.0.1")

    async def echoed_request(name: str) -> tuple[int, str]:
        headers = {"Host": name, "X-Forwarded-For": CLIENT}
        async with http.get("/seen", headers=headers) as response:
            warning = await response.json() if response.status == 200 else {}
            return response.status, warning.get("remote", "")

    async with proxied.client() as http:
        assert await echoed_request(PUBLIC_HOST) == (200, CLIENT)
        other = GatewaySettings(allowed_hosts=("other.example.org",))
        proxied.listener.apply_settings(Settings(gateway=other))
        assert await echoed_request("other.example.org") == (200, "127.0.0.1")
        assert (await echoed_request(PUBLIC_HOST))[0] == 421


def test_a_proxy_on_this_machine_is_trusted_at_either_loopback_address() -> None:
    """One that is told `localhost` may connect to [::1], on which the gateway listens too."""
    for named in ("127.0.0.1", "::1"):
        proxies = TrustedProxies((named,))
        assert proxies.trusts("127.0.0.1") and proxies.trusts("::1")
    assert not TrustedProxies(("10.0.0.1",)).trusts("::1")
