"""The login: a link that works once, a cookie that survives a restart, and what both allow."""

import asyncio
import base64
import hmac
import re
import secrets
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from tests.support.gateway_process import NewGateway, SpawnedGateway
from tests.support.logins import make_login
from tests.support.settable_clock import SettableClock
from tests.support.v1_client import PREFIX

from holdfast.server.api.endpoint import Endpoint
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.auth.tokens import OWNER
from holdfast.server.local.control_client import ControlClient
from holdfast.system.paths import Paths
from holdfast.system.tokens import cookie_key


def new_link(shared_gateway: SpawnedGateway) -> str:
    """A new login link, as `holdfast link` requests it."""
    found: str = ControlClient(shared_gateway.paths).post("/login")["link"]
    return found


@pytest.fixture
async def browser(shared_gateway: SpawnedGateway) -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps cookies, also for a bare IP address."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(shared_gateway.address, cookie_jar=jar) as session:
        yield session


async def log_in(browser: aiohttp.ClientSession, link: str) -> aiohttp.ClientResponse:
    async with browser.get(link, allow_redirects=False) as response:
        await response.read()
        return response


async def test_a_link_logs_in_once_and_leads_to_the_page(
    shared_gateway: SpawnedGateway, browser: aiohttp.ClientSession
) -> None:
    link = new_link(shared_gateway)
    response = await log_in(browser, link)
    assert (response.status, response.headers["Location"]) == (303, "/")
    cookie = response.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Path=/" in cookie
    async with browser.get(f"{PREFIX}/status") as answer:
        assert answer.status == 200
    async with aiohttp.ClientSession(shared_gateway.address) as somebody_else:
        again = await log_in(somebody_else, link)
        assert again.status == 403 and "Set-Cookie" not in again.headers
        assert "holdfast link" in await again.text()
    # Who is logged in already is not bothered with a link that was used.
    assert (await log_in(browser, link)).status == 303


async def test_a_preview_of_a_link_does_not_use_it_up(
    shared_gateway: SpawnedGateway, browser: aiohttp.ClientSession
) -> None:
    link = new_link(shared_gateway)
    async with browser.head(link) as response:
        assert response.status == 405
    assert (await log_in(browser, link)).status == 303


async def test_the_cookie_survives_a_restart_and_not_a_new_token(new_gateway: NewGateway) -> None:
    gateway = new_gateway().start()
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as browser:
        await log_in(browser, new_link(gateway))
        gateway.end()
        gateway.start()
        async with browser.get(f"{gateway.address}{PREFIX}/status") as response:
            assert response.status == 200
        gateway.end()
        gateway.paths.api_token.write_text(f"{secrets.token_hex(16)}\n")
        gateway.start()
        async with browser.get(f"{gateway.address}{PREFIX}/status") as response:
            assert response.status == 401


async def test_logging_out_removes_the_cookie(
    shared_gateway: SpawnedGateway, browser: aiohttp.ClientSession
) -> None:
    await log_in(browser, new_link(shared_gateway))
    async with browser.post("/logout", headers={"Origin": "http://evil.example"}) as response:
        assert response.status == 403
    async with browser.post("/logout", headers={"Origin": shared_gateway.address}) as response:
        assert response.status == 204
    async with browser.get(f"{PREFIX}/status") as response:
        assert response.status == 401


async def test_wrong_keys_are_rate_limited_and_the_right_one_never(new_gateway: NewGateway) -> None:
    gateway = new_gateway().start()
    async with aiohttp.ClientSession(gateway.address) as http:
        statuses: list[int] = []
        while 429 not in statuses:  # on loopback one more try is allowed each second
            held = await log_in(http, f"/login?key=guess{len(statuses)}")
            statuses.append(held.status)
            assert len(statuses) < 200
        assert statuses[:10] == [403] * 10 and held.headers["Retry-After"] == "1"
        assert (await log_in(http, new_link(gateway))).status == 303


def test_a_link_is_valid_for_ten_minutes(tmp_path: Path) -> None:
    clock = SettableClock()
    login = make_login(tmp_path, clock=clock)
    link = login.create_link("http://localhost")
    clock.at += 601
    assert not login.redeem(link.partition("key=")[2])


def test_a_cookie_cannot_be_made_by_guessing_the_token(tmp_path: Path) -> None:
    """The key of the signature is random: a cookie does not even tell whether a guess is right."""
    logins = [
        make_login(tmp_path, clock=SettableClock(), token="token", key=key) for key in ("a", "b")
    ]
    cookie = logins[0].make_cookie(OWNER)
    expires, login, signature = cookie.split(".")
    assert expires == str(1_000_000 + 30 * 24 * 3600)
    assert "token" not in cookie and len(signature) == 43
    payload = f"{expires}.{login}"
    key = hmac.digest(b"holdfast login cookie v1", b"token", "sha256")
    for guess in (key, b"token", b"token" + payload.encode()):
        made = hmac.digest(guess, payload.encode(), "sha256")
        assert base64.urlsafe_b64encode(made).decode().rstrip("=") != signature
    assert logins[0].is_signed(payload, signature) and not logins[1].is_signed(payload, signature)


def test_the_cookie_key_is_random_stored_and_private(tmp_path: Path) -> None:
    paths = Paths(tmp_path)
    key = cookie_key(paths)
    assert stat.S_IMODE(paths.cookie_key.stat().st_mode) == 0o600
    assert cookie_key(paths) == key != cookie_key(Paths(tmp_path / "other"))


async def test_logging_out_ends_the_cookie_its_copies_and_its_streams(
    new_gateway: NewGateway,
) -> None:
    gateway = new_gateway().start()
    own = {"Origin": gateway.address}
    async with aiohttp.ClientSession(gateway.address) as http:
        stolen = await _cookie(http, gateway)
        other = await _cookie(http, gateway)
        async with http.get(f"{PREFIX}/events", headers=stolen) as stream:
            assert await stream.content.readline()
            async with http.post("/logout", headers=stolen | own) as response:
                assert response.status == 204
            with pytest.raises(aiohttp.ClientError):
                async with asyncio.timeout(20):
                    await stream.content.read()
        assert await _status(http, stolen) == 401
        assert await _status(http, other) == 200
    gateway.end()
    gateway.start()
    async with aiohttp.ClientSession(gateway.address) as http:
        assert await _status(http, stolen) == 401
        assert await _status(http, other) == 200


async def _cookie(http: aiohttp.ClientSession, gateway: SpawnedGateway) -> dict[str, str]:
    async with http.get(new_link(gateway), allow_redirects=False) as response:
        ((name, morsel),) = response.cookies.items()
    http.cookie_jar.clear()
    return {"Cookie": f"{name}={morsel.value}"}


async def _status(http: aiohttp.ClientSession, headers: dict[str, str]) -> int:
    async with http.get(f"{PREFIX}/status", headers=headers) as response:
        return response.status


def concrete_path(endpoint: Endpoint) -> str:
    return PREFIX + re.sub(r"{\w+}", "none-such", endpoint.path)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda e: f"{e.method} {e.path}")
async def test_every_endpoint_accepts_only_authorized_requests(
    shared_gateway: SpawnedGateway, browser: aiohttp.ClientSession, endpoint: Endpoint
) -> None:
    """Parametrized over the table of endpoints, so that new ones are covered."""
    await log_in(browser, new_link(shared_gateway))
    unsafe = endpoint.method != "GET"
    own, foreign = {"Origin": shared_gateway.address}, {"Origin": "http://127.0.0.1:1"}
    cross = {"Sec-Fetch-Site": "same-site"}
    name = next(cookie.key for cookie in browser.cookie_jar)
    expired = {"Cookie": f"{name}=1.{'x' * 43}"}

    async def status(session: aiohttp.ClientSession, headers: dict[str, str]) -> int:
        url = concrete_path(endpoint)
        async with session.request(endpoint.method, url, headers=headers) as response:
            if response.status >= 400:
                assert set(await response.json()) == {"error"}
            return response.status

    async with aiohttp.ClientSession(shared_gateway.address) as bare:
        assert await status(bare, {}) == 401
        assert await status(bare, {"Authorization": f"Bearer {shared_gateway.token}x"}) == 401
        assert await status(bare, {"Authorization": f"Basic {shared_gateway.token}"}) == 401
        assert await status(bare, expired) == 401
        assert await status(bare, shared_gateway.auth) not in (401, 403)
        assert await status(bare, {**shared_gateway.auth, **foreign}) not in (401, 403)
    assert await status(browser, own) not in (401, 403)
    assert (await status(browser, {}) == 403) is unsafe
    assert (await status(browser, foreign) == 403) is unsafe
    assert await status(browser, {**own, **cross}) == 403


async def test_unknown_paths_need_the_token_too(shared_gateway: SpawnedGateway) -> None:
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        async with http.get(f"{PREFIX}/nothing") as response:
            assert response.status == 401
        async with http.get(f"{PREFIX}/nothing", headers=shared_gateway.auth) as response:
            assert response.status == 404
        async with http.get(
            f"{PREFIX}/sessions/a%2Fturns", headers=shared_gateway.auth
        ) as response:
            assert response.status == 404
            assert "'a/turns'" in await response.text()  # one path segment, however it is encoded
        async with http.get(f"{PREFIX}/%73tatus", headers=shared_gateway.auth) as response:
            assert response.status == 200
        async with http.put(f"{PREFIX}/sessions", headers=shared_gateway.auth) as response:
            assert (response.status, response.headers["Allow"]) == (405, "GET, POST")


@pytest.mark.parametrize("path", ["/", "/login", "/healthz", f"{PREFIX}/status", "/v1/models"])
async def test_every_response_has_the_security_headers(
    shared_gateway: SpawnedGateway, path: str
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address) as http, http.get(path) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "no-referrer"


async def test_the_startup_banner_has_a_link_and_no_log_has_its_key(
    new_gateway: NewGateway, tmp_path: Path
) -> None:
    gateway = new_gateway()
    process = gateway.launch()
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(5)]
    found = re.search(r"http\S+/login\?key=(\S+)", "".join(lines))
    assert found
    gateway.address = found[0].partition("/login")[0]
    async with aiohttp.ClientSession() as http:
        assert (await log_in(http, found[0])).status == 303
    gateway.end()
    assert found[1] not in gateway.paths.log_file.read_text()


def test_two_gateways_on_one_machine_have_different_cookie_names(tmp_path: Path) -> None:
    clock = SettableClock()
    one, other = (
        make_login(tmp_path, clock=clock, key=key).cookie_name for key in ("one", "other")
    )
    assert one != other
    assert make_login(tmp_path, clock=clock, key="one").cookie_name == one
