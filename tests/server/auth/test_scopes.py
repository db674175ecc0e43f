"""Scopes of tokens: every endpoint with every scope, and clients that try to leave theirs."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.server.api.v1_helpers import bearer_header
from tests.support.gateway_process import SpawnedGateway
from tests.support.v1_client import PREFIX

from holdfast.core.people.api_tokens import TokenScope
from holdfast.server.api.endpoint import Endpoint, Reach
from holdfast.server.api.openapi import needed_scope
from holdfast.server.api.router import ENDPOINTS
from holdfast.server.local.control_client import ControlClient

SHARED = "shared by name"


class Client:
    """A program with a token of its own."""

    def __init__(self, gateway: SpawnedGateway, scope: TokenScope, *sessions: str) -> None:
        self.name = f"{scope}-{secrets.token_hex(4)}"
        self._control = ControlClient(gateway.paths)
        self._address = gateway.address
        asked = {"name": self.name, "scope": scope, "sessions": list(sessions)}
        self.auth = bearer_header(self._control.post("/tokens", asked)["token"])

    def revoke(self) -> None:
        self._control.post("/tokens/revoke", {"name": self.name})

    @asynccontextmanager
    async def http(self) -> AsyncIterator[aiohttp.ClientSession]:
        async with aiohttp.ClientSession(self._address, headers=self.auth) as http:
            yield http

    async def ask(self, method: str, path: str, **body: object) -> tuple[int, object]:
        async with self.http() as http, http.request(method, path, json=body or None) as response:
            return response.status, await response.json()

    async def say(self, text: str, *, session: str = "", **more: object) -> tuple[int, object]:
        headers = {"X-Holdfast-Session": session} if session else {}
        body = {"model": "holdfast", "input": text, **more}
        async with (
            self.http() as http,
            http.post("/v1/responses", json=body, headers=headers) as response,
        ):
            return response.status, await response.json()

    async def sessions(self) -> set[str]:
        status, listed = await self.ask("GET", f"{PREFIX}/sessions?limit=1000")
        assert status == 200 and isinstance(listed, dict)
        return {each["id"] for each in listed["sessions"]}


@pytest.fixture(params=list(TokenScope))
def client(shared_gateway: SpawnedGateway, request: pytest.FixtureRequest) -> Iterator[Client]:
    names = [SHARED] if request.param is TokenScope.SESSIONS else []
    made = Client(shared_gateway, request.param, *names)
    yield made
    made.revoke()


@pytest.fixture
def ann(shared_gateway: SpawnedGateway) -> Iterator[Client]:
    made = Client(shared_gateway, TokenScope.TALK)
    yield made
    made.revoke()


@pytest.fixture
def bob(shared_gateway: SpawnedGateway) -> Iterator[Client]:
    made = Client(shared_gateway, TokenScope.TALK)
    yield made
    made.revoke()


def expected(endpoint: Endpoint, scope: TokenScope) -> set[int] | None:
    """The statuses that a request for something that does not exist may have; None: any but a
    refusal."""
    if scope is TokenScope.ADMIN:
        return None
    if not endpoint.read_only:
        return {403}
    if scope is TokenScope.READ or endpoint.reach is Reach.PRINCIPAL:
        return None
    return {404} if endpoint.reach is Reach.SESSION else {403}


async def test_every_endpoint_allows_a_scope_what_the_table_says(
    client: Client, request: pytest.FixtureRequest
) -> None:
    scope = TokenScope(client.name.partition("-")[0])
    async with client.http() as http:
        for endpoint in ENDPOINTS:
            path = PREFIX + re.sub(r"{\w+}", "none-such", endpoint.path)
            async with http.request(endpoint.method, path, data=b"{") as response:
                allowed = expected(endpoint, scope)
                where = f"{scope}: {endpoint.method} {path}: {response.status}"
                if allowed is None:
                    assert response.status not in (401, 403), where
                else:
                    assert response.status in allowed, where


async def test_the_other_routes_allow_a_scope_what_the_table_says(client: Client) -> None:
    scope = TokenScope(client.name.partition("-")[0])
    reads = scope in (TokenScope.READ, TokenScope.ADMIN)
    async with client.http() as http:
        for method, path, allowed in (
            ("GET", "/metrics", reads),
            ("GET", "/v1/models", scope is not TokenScope.READ),
            ("POST", "/v1/chat/completions", scope is not TokenScope.READ),
            ("GET", "/v1/responses/resp_1", scope is not TokenScope.READ),
        ):
            async with http.request(method, path, data=b"{") as response:
                assert (response.status == 403) is not allowed, f"{scope}: {path}"
        origin = {"Origin": str(http._base_url)}
        async with http.post("/login", headers=origin) as response:
            assert response.status == (204 if reads else 403)


def test_each_endpoint_has_the_least_scope_and_only_few_are_for_clients() -> None:
    """A new endpoint is not open to clients that may only talk, unless it is added here."""
    talk = {e.path for e in ENDPOINTS if needed_scope(e) is TokenScope.TALK}
    assert talk == {
        "/whoami",
        "/openapi.json",
        "/sessions",
        "/sessions/{id}",
        "/sessions/{id}/events",
        "/sessions/{id}/transcript",
        "/sessions/{id}/turns",
    }


async def test_clients_do_not_see_each_other_s_sessions(
    shared_gateway: SpawnedGateway, ann: Client, bob: Client
) -> None:
    """The attack: the same session name, the ids of another client, its responses."""
    status, said = await ann.say("my secret is 4711", session="notes")
    assert status == 200 and isinstance(said, dict)
    (own,) = await ann.sessions()
    status, of_bob = await bob.say("what is the secret?", session="notes")
    assert status == 200 and isinstance(of_bob, dict)
    (other,) = await bob.sessions()
    assert own != other
    for path in ("", "/transcript", "/turns"):
        assert (await ann.ask("GET", f"{PREFIX}/sessions/{own}{path}"))[0] == 200
        assert (await bob.ask("GET", f"{PREFIX}/sessions/{own}{path}"))[0] == 404
    assert (await bob.ask("GET", f"{PREFIX}/sessions/{own}/events"))[0] == 404
    _, listed = await bob.ask("GET", f"{PREFIX}/sessions?user=owner&subagents=true")
    assert isinstance(listed, dict) and {each["id"] for each in listed["sessions"]} <= {other}
    assert (await bob.ask("GET", f"/v1/responses/{said['id']}"))[0] == 404
    status, _ = await bob.say("go on", previous_response_id=said["id"])
    assert status == 404
    assert (await ann.ask("GET", f"/v1/responses/{said['id']}"))[0] == 200
    # The names of clients' chats cannot be written into the header by others.
    async with aiohttp.ClientSession(shared_gateway.address, headers=shared_gateway.auth) as http:
        async with http.get(f"{PREFIX}/sessions/{own}") as response:
            route = (await response.json())["session"]["chat"]
        forged = {"X-Holdfast-Session": route}
        body = {"model": "holdfast", "input": "hello"}
        async with http.post("/v1/responses", json=body, headers=forged) as response:
            assert response.status == 200
    assert await ann.sessions() == {own}


async def test_a_client_that_talks_is_no_operator(ann: Client) -> None:
    """The attack: commands for the whole gateway, through a session of its own."""
    _, before = await ann.ask("GET", f"{PREFIX}/whoami")
    assert before == {"scope": "talk", "name": ann.name}
    status, refused = await ann.say("/restart", session="commands")
    assert status == 403 and "may not operate" in str(refused)


async def test_a_client_does_not_approve_its_own_commands(
    shared_gateway: SpawnedGateway, ann: Client
) -> None:
    """The attack: a dangerous command, and the approval of it by the client that asked for it."""
    command = '[tool terminal {"command": "sudo -n true; echo of a client"}] [then] [text done]'
    asking = asyncio.create_task(ann.say(command, session="approvals"))
    async with (
        asyncio.timeout(60),
        aiohttp.ClientSession(shared_gateway.address, headers=shared_gateway.auth) as owner,
    ):
        pending: list[dict[str, object]] = []
        while not pending:
            async with owner.get(f"{PREFIX}/approvals?pending=true") as response:
                pending = [each for each in await response.json() if "of a client" in str(each)]
        for answer in ("/approve", f"/approve {pending[0]['id']}", "yes"):
            status, said = await ann.say(answer, session="approvals")
            assert status != 200 or "may answer" in str(said), (answer, said)
        path = f"{PREFIX}/approvals/{pending[0]['id']}"
        async with owner.post(path, json={"answer": "deny"}) as response:
            assert response.status == 200, "it was decided before"
        await asking


async def test_a_token_of_named_sessions_is_for_those_only(
    shared_gateway: SpawnedGateway, ann: Client
) -> None:
    named = Client(shared_gateway, TokenScope.SESSIONS, SHARED)
    try:
        owner = {**shared_gateway.auth, "X-Holdfast-Session": SHARED}
        async with (
            aiohttp.ClientSession(shared_gateway.address, headers=owner) as http,
            http.post("/v1/responses", json={"model": "holdfast", "input": "hi"}) as response,
        ):
            assert response.status == 200
        assert (await named.say("hello", session=SHARED))[0] == 200
        (session,) = await named.sessions()
        status, found = await named.ask("GET", f"{PREFIX}/sessions/{session}")
        assert status == 200 and isinstance(found, dict)
        texts = [record["message"].get("text") for record in found["records"]]
        assert "hi" in texts and "hello" in texts  # it is the session of that name
        for other in ("", "another"):
            assert (await named.say("hello", session=other))[0] == 403
        assert (await ann.say("hello", session=SHARED))[0] == 200
        assert await ann.sessions() != {session}
    finally:
        named.revoke()


async def test_revoking_ends_open_streams_and_answers_at_once(
    shared_gateway: SpawnedGateway,
) -> None:
    client = Client(shared_gateway, TokenScope.TALK)
    assert (await client.say("hello", session="s"))[0] == 200
    (session,) = await client.sessions()
    async with (
        client.http() as http,
        http.get(f"{PREFIX}/sessions/{session}/events") as stream,
    ):
        assert await stream.content.readline()
        client.revoke()
        with pytest.raises(aiohttp.ClientError):
            async with asyncio.timeout(20):
                await stream.content.read()
        async with http.post("/v1/responses", json={"model": "x", "input": "y"}) as response:
            assert response.status == 401


async def test_tokens_are_created_and_revoked_over_the_api(
    shared_gateway: SpawnedGateway,
) -> None:
    admin = Client(shared_gateway, TokenScope.ADMIN)
    status, made = await admin.ask(
        "POST", f"{PREFIX}/tokens", name="phone", scope="read", expires_in=3600
    )
    assert status == 201 and isinstance(made, dict) and made["token"].startswith("hft_")
    status, listed = await admin.ask("GET", f"{PREFIX}/tokens")
    assert status == 200 and isinstance(listed, dict)
    (phone,) = [each for each in listed["tokens"] if each["name"] == "phone"]
    assert made["token"] not in str(listed) and phone["expires_at"] is not None
    assert (await admin.ask("POST", f"{PREFIX}/tokens", name="phone"))[0] == 409
    async with admin.http() as http:
        for expected_status in (204, 404):
            async with http.delete(f"{PREFIX}/tokens?name=phone") as response:
                assert response.status == expected_status
        async with http.get(f"{PREFIX}/audit?kind=token.added&text=phone") as response:
            rows = (await response.json())["rows"]
    assert {row["actor"] for row in rows} == {f"token:{admin.name}"}
    admin.revoke()
