"""Roles: a viewer sees everything and changes nothing, until their token is revoked."""

import asyncio
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
from tests.support.v1_client import PREFIX

from holdfast.cli.tokens import command as tokens
from holdfast.cli.tokens import link_command as link
from holdfast.core.errors import HoldfastError
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.auth.viewers import HttpRole, Viewer, ViewerTokenError, ViewerTokens
from holdfast.server.local.control_client import ControlClient, GatewayRefused
from holdfast.system.clock import SystemClock


@pytest.fixture
def control(shared_gateway: SpawnedGateway) -> ControlClient:
    return ControlClient(shared_gateway.paths)


@pytest.fixture
def token(control: ControlClient) -> Iterator[str]:
    """A viewer's token, as `holdfast token add --role viewer ann` creates it."""
    made = control.post("/tokens", {"name": "ann"})
    assert made["role"] == "viewer"
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
                assert (
                    error["code"] == "forbidden_role" and "needs the role owner" in error["message"]
                )


async def test_a_viewer_may_read_metrics_and_not_use_the_openai_api(
    shared_gateway: SpawnedGateway, token: str
) -> None:
    async with aiohttp.ClientSession(shared_gateway.address, headers=bearer_header(token)) as http:
        async with http.get("/metrics") as response:
            assert response.status == 200
        async with http.get("/v1/models") as response:
            assert response.status == 401
        async with http.get(f"{PREFIX}/whoami") as response:
            assert await response.json() == {"role": "viewer", "name": "ann"}
        async with http.get(f"{PREFIX}/whoami", headers=shared_gateway.auth) as response:
            assert await response.json() == {"role": "owner", "name": ""}


async def test_a_viewer_s_cookie_has_the_role_and_ends_with_the_token(
    shared_gateway: SpawnedGateway, control: ControlClient, token: str
) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    own = {"Origin": shared_gateway.address}
    async with aiohttp.ClientSession(shared_gateway.address, cookie_jar=jar) as browser:
        link = control.post("/login", {"viewer": "ann"})["link"]
        async with browser.get(link, allow_redirects=False) as response:
            assert response.status == 303
        async with browser.get(f"{PREFIX}/whoami") as response:
            assert (await response.json())["role"] == "viewer"
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
    link = control.post("/login", {"viewer": "ann"})["link"]
    async with aiohttp.ClientSession(shared_gateway.address) as http:
        async with http.get(link, allow_redirects=False) as response:
            ((name, morsel),) = response.cookies.items()
        expires, _, signature = morsel.value.split(".")
        for forged in (f"{expires}.{signature}", f"{expires}..{signature}"):
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
    assert (listed["name"], listed["role"]) == ("ann", "viewer") and "token" not in listed
    for path, asked, why in (
        ("/tokens", {"name": "ann"}, "already"),
        ("/tokens", {"name": "../x"}, "cannot be the name"),
        ("/tokens/revoke", {"name": "bob"}, "no token 'bob'"),
        ("/login", {"viewer": "bob"}, "no token 'bob'"),
    ):
        with pytest.raises(GatewayRefused, match=why):
            control.post(path, asked)


async def test_tokens_are_stored_as_digests_in_a_private_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets" / "viewers.json"
    viewers = ViewerTokens.load(path, clock=SystemClock())
    token = (await viewers.add("ann")).reveal()
    await viewers.add("bob")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token not in path.read_text()
    again = ViewerTokens.load(path, clock=SystemClock())
    found = again.by_token(token)
    assert found is not None and found.principal.role is HttpRole.VIEWER
    await again.revoke("ann")
    left = msgspec.json.decode(path.read_bytes(), type=list[Viewer])
    assert [viewer.name for viewer in left] == ["bob"]
    assert again.by_token(token) is None and again.by_id(found.id) is None
    with pytest.raises(ViewerTokenError):
        await again.revoke("ann")


def test_an_invalid_token_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "viewers.json"
    path.write_text("[{")
    with pytest.raises(HoldfastError, match=r"viewers\.json cannot be read.*revokes"):
        ViewerTokens.load(path, clock=SystemClock())


def test_the_commands_add_list_and_revoke_a_token(shared_gateway: SpawnedGateway) -> None:
    def said(command: click.Command, *args: str) -> str:
        done = CliRunner().invoke(command, [*args, "--home", str(shared_gateway.home)])
        assert done.exit_code == 0, done.output
        return done.output

    made = said(tokens, "add", "--role", "viewer", "carol").strip()
    assert made.startswith("hfv_")
    assert made not in said(tokens, "list") and "carol" in said(tokens, "list")
    assert "/login?key=" in said(link, "--viewer", "carol")
    said(tokens, "revoke", "carol")
    assert said(tokens, "list").startswith("The only token is the owner's")
    assert said(tokens).strip() == shared_gateway.token
