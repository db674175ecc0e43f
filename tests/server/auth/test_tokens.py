"""Created tokens: what each scope may do, how they are stored, and how they end."""

import asyncio
import hashlib
import json
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import click
import msgspec
import pytest
from click.testing import CliRunner
from tests.server.api.v1_helpers import bearer_header
from tests.support.gateway_process import SpawnedGateway
from tests.support.settable_clock import SettableClock
from tests.support.store_file import open_read_only
from tests.support.v1_client import PREFIX

from holdfast.cli.tokens import command as tokens
from holdfast.cli.tokens import link_command as link
from holdfast.core.errors import HoldfastError
from holdfast.core.people.api_tokens import TokenScope
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.auth.tokens import ApiToken, ApiTokens, TokenError, TokenRequest
from holdfast.server.local.control_client import ControlClient, GatewayRefused


@pytest.fixture
def control(shared_gateway: SpawnedGateway) -> ControlClient:
    return ControlClient(shared_gateway.paths)


@pytest.fixture
def token(control: ControlClient) -> Iterator[str]:
    """A token that can only read, as `holdfast token create --scope read --name ann` creates it."""
    made = control.post("/tokens", {"name": "ann", "scope": "read"})
    assert made["scope"] == "read"
    try:
        yield made["token"]
    finally:
        if any(each["name"] == "ann" for each in control.get("/tokens")["tokens"]):
            control.post("/tokens/revoke", {"name": "ann"})


def test_every_endpoint_declares_whether_it_is_read_only() -> None:
    """An endpoint without a declaration is closed to viewers, and fails here."""
    silent = [f"{e.method} {e.path}" for e in ENDPOINTS if e.read_only is None]
    assert silent == [], "say looks=True or looks=False in control/v1/tables"
    changing = [f"{e.method} {e.path}" for e in ENDPOINTS if e.read_only and e.method != "GET"]
    assert changing == [], "what only looks is a GET"


async def test_a_viewer_may_use_read_only_endpoints_and_the_refusal_names_the_role(
    shared_gateway: SpawnedGateway, token: str
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address, headers=bearer_header(token)) as http:
        for endpoint in ENDPOINTS:
            path = PREFIX + re.sub(r"{\w+}", "none-such", endpoint.path)
            async with http.request(endpoint.method, path, data=b"{") as response:
                if endpoint.read_only:
                    assert response.status not in (401, 403), path
                    continue
                assert response.status == 403, f"{endpoint.method} {path}"
                error = (await response.json())["error"]
                assert error["code"] == "forbidden_scope" and "scope read" in error["message"]


async def test_a_viewer_may_read_metrics_and_not_use_the_openai_api(
    shared_gateway: SpawnedGateway, token: str
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address, headers=bearer_header(token)) as http:
        async with http.get("/metrics") as response:
            assert response.status == 200
        async with http.get("/v1/models") as response:
            assert response.status == 403
        async with http.get(f"{PREFIX}/whoami") as response:
            assert await response.json() == {"scope": "read", "name": "ann"}
        async with http.get(f"{PREFIX}/whoami", headers=shared_gateway.auth) as response:
            assert await response.json() == {"scope": "admin", "name": ""}


async def test_a_viewer_s_cookie_has_the_role_and_ends_with_the_token(
    shared_gateway: SpawnedGateway, control: ControlClient, token: str
) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    own = {"Origin": shared_gateway.address}
    async with aiohttp.ClientSession(shared_gateway.address, cookie_jar=jar) as browser:
        link = control.post("/login", {"token": "ann"})["link"]
        async with browser.get(link, allow_redirects=False) as response:
            assert response.status == 303
        async with browser.get(f"{PREFIX}/whoami") as response:
            assert (await response.json())["scope"] == "read"
        async with browser.post(f"{PREFIX}/sessions", json={}, headers=own) as response:
            assert response.status == 403
        async with browser.get(f"{PREFIX}/events") as stream:
            assert await stream.content.readline()
            control.post("/tokens/revoke", {"name": "ann"})
            with pytest.raises(aiohttp.ClientError):  # what is open is hung up, too
                async with asyncio.timeout(20):
                    await stream.content.read()
        async with browser.get(f"{PREFIX}/status") as response:
            assert response.status == 401
    async with (
        aiohttp.ClientSession(shared_gateway.address, headers=bearer_header(token)) as http,
        http.get(f"{PREFIX}/status") as response,
    ):
        assert response.status == 401


async def test_a_viewer_s_cookie_cannot_be_made_the_owner_s(
    shared_gateway: SpawnedGateway, control: ControlClient, token: str
) -> None:
    link = control.post("/login", {"token": "ann"})["link"]
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        async with http.get(link, allow_redirects=False) as response:
            ((name, morsel),) = response.cookies.items()
        expires, login, _, signature = morsel.value.split(".")
        for forged in (f"{expires}.{login}.{signature}", f"{expires}.{login}..{signature}"):
            headers = {"Cookie": f"{name}={forged}"}
            async with http.get(f"{PREFIX}/whoami", headers=headers) as response:
                assert response.status == 401


async def test_the_login_form_accepts_a_token_only_from_the_page(
    shared_gateway: SpawnedGateway, token: str
) -> None:
    own = {"Origin": shared_gateway.address}
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        for headers, status in (
            (bearer_header(token) | own, 204),
            (bearer_header(token) | {"Origin": "http://evil.example"}, 403),
            (bearer_header("out of date") | own, 401),
            (own, 401),
        ):
            async with http.post("/login", headers=headers) as response:
                assert response.status == status
                assert ("Set-Cookie" in response.headers) is (status == 204)


def test_tokens_are_listed_without_their_values_and_refusals_name_the_reason(
    control: ControlClient, token: str
) -> None:
    (listed,) = control.get("/tokens")["tokens"]
    assert (listed["name"], listed["scope"]) == ("ann", "read") and "token" not in listed
    for path, asked, why in (
        ("/tokens", {"name": "ann"}, "already"),
        ("/tokens", {"name": "../x"}, "cannot be the name"),
        ("/tokens/revoke", {"name": "bob"}, "no token 'bob'"),
        ("/login", {"token": "bob"}, "no token 'bob'"),
    ):
        with pytest.raises(GatewayRefused, match=why):
            control.post(path, asked)


def new_tokens(path: Path, clock: SettableClock) -> ApiTokens:
    return ApiTokens.load(path, clock=clock)


async def test_tokens_are_stored_as_digests_in_a_private_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "secrets" / "tokens.json", SettableClock()
    tokens = new_tokens(path, clock)
    token = (await tokens.create(TokenRequest(name="ann"))).reveal()
    await tokens.create(TokenRequest(name="bob", scope=TokenScope.ADMIN))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    again = new_tokens(path, clock)
    found = again.by_token(token)
    assert found is not None and found.scope is TokenScope.TALK  # the least is the default
    await again.revoke("ann")
    left = msgspec.json.decode(path.read_bytes(), type=list[ApiToken])
    assert [token.name for token in left] == ["bob"]
    assert again.by_token(token) is None and again.by_id(found.id) is None
    assert again.client(found.client.user_id) is None
    with pytest.raises(TokenError):
        await again.revoke("ann")


async def test_viewers_of_older_homes_become_tokens_that_can_only_read(tmp_path: Path) -> None:
    older, path = tmp_path / "viewers.json", tmp_path / "tokens.json"
    digest = hashlib.sha256(b"hfv_old").hexdigest()
    row = {"id": "0011223344556677", "name": "ann", "digest": digest, "made_at": 5.0}
    older.write_bytes(msgspec.json.encode([row]))
    tokens = new_tokens(path, SettableClock())
    found = tokens.by_token("hfv_old")
    assert found is not None and found.scope is TokenScope.READ
    await tokens.revoke("ann")
    # The older version, started again, must not know the token either.
    assert not older.exists() and new_tokens(path, SettableClock()).by_token("hfv_old") is None


async def test_a_token_expires_and_its_open_connections_end(tmp_path: Path) -> None:
    clock = SettableClock()
    tokens = new_tokens(tmp_path / "tokens.json", clock)
    token = (await tokens.create(TokenRequest(name="ann", expires_in=60))).reveal()
    found = tokens.by_token(token)
    assert found is not None and tokens.client(found.client.user_id) is not None
    clock.at += 59.999
    ended = asyncio.Event()
    with tokens.track_connection(found.principal, ended.set):
        async with asyncio.timeout(20):
            await ended.wait()
    clock.at += 0.002
    assert tokens.by_token(token) is None and tokens.by_id(found.id) is None
    assert tokens.client(found.client.user_id) is None


async def test_the_last_use_is_stored_and_not_by_each_request(tmp_path: Path) -> None:
    path, clock = tmp_path / "tokens.json", SettableClock()
    tokens = new_tokens(path, clock)
    token = (await tokens.create(TokenRequest(name="ann"))).reveal()

    async def stored_use() -> float | None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task
        return new_tokens(path, clock).by_name("ann").last_used_at

    assert await stored_use() is None
    tokens.by_token(token)
    first = await stored_use()
    assert first == clock.at
    clock.at += 599
    tokens.by_token(token)
    assert len(asyncio.all_tasks()) == 1 and await stored_use() == first
    clock.at += 2
    tokens.by_token(token)
    assert await stored_use() == clock.at


@pytest.mark.parametrize(
    "asked",
    [
        TokenRequest(name="../x"),
        TokenRequest(name="x", scope=TokenScope.SESSIONS),
        TokenRequest(name="x", sessions=("a",)),
        TokenRequest(name="x", scope=TokenScope.SESSIONS, sessions=("",)),
        TokenRequest(name="x", expires_in=0),
    ],
)
async def test_a_token_that_makes_no_sense_is_refused(tmp_path: Path, asked: TokenRequest) -> None:
    with pytest.raises(TokenError):
        await new_tokens(tmp_path / "tokens.json", SettableClock()).create(asked)


def test_an_invalid_token_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text("[{")
    with pytest.raises(HoldfastError, match=r"tokens\.json cannot be read.*revokes"):
        new_tokens(path, SettableClock())


def test_the_commands_add_list_and_revoke_a_token(shared_gateway: SpawnedGateway) -> None:
    def said(command: click.Command, *args: str) -> str:
        done = CliRunner().invoke(command, [*args, "--home", str(shared_gateway.home)])
        assert done.exit_code == 0, done.output
        return done.output

    made = said(tokens, "create", "--name", "carol", "--scope", "read", "--expires", "90d").strip()
    assert made.startswith("hft_")
    listed = said(tokens, "list")
    assert made not in listed and "carol" in listed and "read" in listed and "never" in listed
    assert "/login?key=" in said(link, "--token", "carol")
    said(tokens, "revoke", "carol")
    older = said(tokens, "add", "--role", "viewer", "dave").strip()
    assert older.startswith("hft_")
    said(tokens, "revoke", "dave")
    assert said(tokens, "list").startswith("The only token is the owner's")
    assert said(tokens).strip() == shared_gateway.token


def test_creating_and_revoking_is_audited(
    shared_gateway: SpawnedGateway, control: ControlClient
) -> None:
    control.post("/tokens", {"name": "erin", "scope": "sessions", "sessions": ["a"]})
    control.post("/tokens/revoke", {"name": "erin"})
    with open_read_only(shared_gateway.paths.db) as db:
        rows = db.execute(
            "SELECT kind, actor, facts FROM audit WHERE subject = 'erin' ORDER BY seq"
        ).fetchall()
    assert [(kind, actor) for kind, actor, _ in rows] == [
        ("token.added", "operator"),
        ("token.revoked", "operator"),
    ]
    assert json.loads(rows[0][2]) == {"scope": "sessions", "sessions": "a"}
